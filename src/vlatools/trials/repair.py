"""Mend a bag whose writer died: keep every intact message, add what is missing for ``ros2 bag``: index and metadata.yaml."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from mcap.writer import CompressionType, Writer

from vlatools.trials.bag import LIBRARY
from vlatools.trials.bag_info import BagInfo, bag_info
from vlatools.trials.bag_metadata import BagTopic, TopicCount, TopicQos, write_metadata
from vlatools.trials.bag_read import BagReader
from vlatools.trials.commit_file import CommitFile
from vlatools.trials.schemas import TypeSchema

_COMMIT_BYTES = 8 * 1024 * 1024


def repair_bag(path: Path) -> BagInfo:
    """Mend the bag at ``path`` (folder, trial folder or MCAP file) in place; a sound bag is left as it is.

    Raises:
        BagUnreadable: there is no bag.
        OSError: no room for the mended copy, which is written beside the old file and then replaces it.
    """
    before = bag_info(path)
    if before.closed and before.indexed:
        return before
    reader = BagReader(path)
    counts: dict[str, int] = {}
    span: list[int] = []
    mended = reader.file.with_name(f".{reader.file.name}.mended")
    with suppress(FileNotFoundError):
        mended.unlink()
    try:
        _copy(reader, mended, counts, span)
        mended.replace(reader.file)
    except OSError:
        with suppress(OSError):
            mended.unlink()
        raise
    topics = [
        BagTopic(
            channel.topic,
            TypeSchema(reader.schemas[channel.schema_id].name, "", channel.metadata.get("topic_type_hash", "")),
            _qos(channel.metadata.get("offered_qos_profiles", "")),
        )
        for channel in reader.channels.values()
    ]
    totals = {topic.name: TopicCount(topic.schema.name, counts.get(topic.name, 0), 0) for topic in topics}
    write_metadata(reader.file.parent, reader.file.name, topics, totals, (span[0], span[1]) if span else (0, 0))
    return bag_info(path)


def _copy(reader: BagReader, target: Path, counts: dict[str, int], span: list[int]) -> None:
    """Copy every intact message of ``reader`` into a new, closed MCAP file."""
    output = CommitFile(target)
    try:
        writer = Writer(output, compression=CompressionType.ZSTD)
        writer.start(profile="ros2", library=LIBRARY)
        schemas: dict[int, int] = {}
        channels: dict[int, int] = {}
        for channel, message in reader.records():
            if channel.id not in channels:
                schema = reader.schemas[channel.schema_id]
                if schema.id not in schemas:
                    schemas[schema.id] = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.id] = writer.register_channel(
                    channel.topic, channel.message_encoding, schemas[schema.id], channel.metadata
                )
            writer.add_message(
                channels[channel.id], message.log_time, message.data, message.publish_time, message.sequence
            )
            counts[channel.topic] = counts.get(channel.topic, 0) + 1
            span[:] = [span[0] if span else message.log_time, message.log_time]
            if output.staged_bytes >= _COMMIT_BYTES:
                output.commit()
        writer.finish()
        output.commit()
    finally:
        output.close()


def _qos(text: str) -> TopicQos:
    try:
        profile: dict[str, Any] = yaml.safe_load(text)[0]
        return TopicQos(
            profile["reliability"] == "reliable", profile["durability"] == "transient_local", int(profile["depth"])
        )
    except (yaml.YAMLError, TypeError, LookupError, ValueError):
        return TopicQos()
