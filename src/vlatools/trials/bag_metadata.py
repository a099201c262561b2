"""metadata.yaml of a rosbag2 folder, version 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vlatools.trials.files import write_atomically
from vlatools.trials.schemas import TypeSchema

VERSION = 9
_INFINITE = {"sec": 9223372036, "nsec": 854775807}


@dataclass(frozen=True)
class TopicQos:
    """The quality of service that a topic's publisher offers, as far as replaying needs it."""

    reliable: bool = True
    latched: bool = False
    depth: int = 10


@dataclass(frozen=True)
class BagTopic:
    """A topic to record.

    Attributes:
        name: e.g. ``/joint_states``.
        schema: its type.
        qos: what its publisher offers.
        bulky: large messages, the first to be dropped when the queue fills.
    """

    name: str
    schema: TypeSchema
    qos: TopicQos = TopicQos()
    bulky: bool = False


@dataclass(frozen=True)
class TopicCount:
    """Messages of one topic: on disk, dropped, and found on reopening (-1: not reopened)."""

    type: str
    written: int
    dropped: int
    found: int = -1


def qos_profile(qos: TopicQos) -> dict[str, Any]:
    """One profile as rosbag2 writes it."""
    return {
        "history": "keep_last",
        "depth": qos.depth,
        "reliability": "reliable" if qos.reliable else "best_effort",
        "durability": "transient_local" if qos.latched else "volatile",
        "deadline": dict(_INFINITE),
        "lifespan": dict(_INFINITE),
        "liveliness": "automatic",
        "liveliness_lease_duration": dict(_INFINITE),
        "avoid_ros_namespace_conventions": False,
    }


def offered_qos_yaml(qos: TopicQos) -> str:
    """The profile list as text, as it stands in an MCAP channel."""
    return yaml.safe_dump([qos_profile(qos)], sort_keys=False).strip()


def write_metadata(
    folder: Path, file_name: str, topics: Sequence[BagTopic], counts: Mapping[str, TopicCount], span: tuple[int, int]
) -> None:
    """Write metadata.yaml.

    Args:
        folder: the bag.
        file_name: name of its MCAP file.
        topics: every topic, also those without a message.
        counts: by topic name; drops are kept as custom data ``dropped:<topic>``.
        span: first and last receive stamp, nanoseconds since the epoch.
    """
    start = {"nanoseconds_since_epoch": span[0]}
    duration = {"nanoseconds": max(0, span[1] - span[0])}
    total = sum(count.written for count in counts.values())
    information = {
        "version": VERSION,
        "storage_identifier": "mcap",
        "duration": duration,
        "starting_time": start,
        "message_count": total,
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.schema.name,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": [qos_profile(topic.qos)],
                    "type_description_hash": topic.schema.hash,
                },
                "message_count": counts[topic.name].written,
            }
            for topic in topics
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file_name],
        "files": [
            {"path": file_name, "starting_time": dict(start), "duration": dict(duration), "message_count": total}
        ],
        "custom_data": {f"dropped:{name}": str(c.dropped) for name, c in counts.items() if c.dropped} or None,
        "ros_distro": "",
    }
    text = yaml.safe_dump({"rosbag2_bagfile_information": information}, sort_keys=False)
    write_atomically(folder / "metadata.yaml", text)
