"""Reading a bag, also one whose writer died: everything up to the last intact record. No ROS, no index needed."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard
from mcap.exceptions import McapError
from mcap.records import Channel, Footer, Message, Schema
from mcap.stream_reader import StreamReader
from mcap_ros2.decoder import DecoderFactory

from vlatools.core import VlatoolsError

# What a cut or damaged tail raises, depending on where the cut is.
_DAMAGE = (McapError, ValueError, struct.error, zstandard.ZstdError, EOFError, IndexError, KeyError)


class BagUnreadable(VlatoolsError):
    """There is no bag, or not even its beginning is intact."""


@dataclass(frozen=True)
class BagMessage:
    """One recorded message; ``decode()`` gives an object with the message's fields as attributes.

    Attributes:
        topic, type: e.g. ``/joint_states``, ``sensor_msgs/msg/JointState``.
        log_ns, publish_ns: receive time (never goes back within a bag) and the receiver's own stamp, nanoseconds.
        data: CDR-serialised.
    """

    topic: str
    type: str
    log_ns: int
    publish_ns: int
    data: bytes
    _decoder: Callable[[bytes], Any] = field(repr=False)

    def decode(self) -> Any:
        """The message. Raises BagUnreadable when it does not fit its definition."""
        try:
            return self._decoder(self.data)
        except (ValueError, struct.error, IndexError, UnicodeDecodeError) as error:
            raise BagUnreadable(f"a message on {self.topic} does not fit {self.type}: {error}") from error


class BagReader:
    """Reads the messages of a bag in the order of their receive times.

    Args:
        path: a bag's folder or its MCAP file.

    Raises:
        BagUnreadable: no such bag.
    """

    def __init__(self, path: Path) -> None:
        self.file = mcap_file(path)
        self.channels: dict[int, Channel] = {}
        self.schemas: dict[int, Schema] = {}
        self.damage = ""
        self.closed = False
        self._factory = DecoderFactory()
        self._decoders: dict[int, Callable[[bytes], Any]] = {}

    def messages(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """Messages of ``topics`` (None: all). Afterwards ``closed`` says whether the file was ended, else ``damage`` why not."""
        for channel, message in self.records(topics):
            yield self.message(channel, message)

    def message(self, channel: Channel, message: Message) -> BagMessage:
        """A record of :meth:`records` as a message."""
        schema = self.schemas[channel.schema_id]
        return BagMessage(
            channel.topic, schema.name, message.log_time, message.publish_time, message.data, self._decoder(channel)
        )

    def records(self, topics: Collection[str] | None = None) -> Iterator[tuple[Channel, Message]]:
        """Like :meth:`messages`, as MCAP records; for repair and counting."""
        self.damage, self.closed = "", False
        with self.file.open("rb") as stream:
            limit = max(1, self.file.stat().st_size)
            records = StreamReader(stream, validate_crcs=True, record_size_limit=limit).records
            while True:
                try:
                    record = next(records)
                except StopIteration:
                    break
                except _DAMAGE as error:
                    if not self.closed:
                        self.damage = str(error) or "the file ends within a record: its writer did not close it"
                    break
                if isinstance(record, Schema):
                    self.schemas[record.id] = record
                elif isinstance(record, Channel):
                    self.channels[record.id] = record
                elif isinstance(record, Footer):
                    self.closed = True
                elif isinstance(record, Message):
                    channel = self.channels[record.channel_id]
                    if topics is None or channel.topic in topics:
                        yield channel, record

    def _decoder(self, channel: Channel) -> Callable[[bytes], Any]:
        if channel.id not in self._decoders:
            found = self._factory.decoder_for(channel.message_encoding, self.schemas[channel.schema_id])
            if found is None:
                raise BagUnreadable(f"{channel.topic} is not CDR with a ros2msg definition: it cannot be decoded")
            self._decoders[channel.id] = found
        return self._decoders[channel.id]


def mcap_file(path: Path) -> Path:
    """The MCAP file of a bag's folder, a trial's folder, or the file itself. Raises BagUnreadable."""
    if path.is_file():
        return path
    for folder in (path, path / "bag"):
        files = sorted(folder.glob("*.mcap"))
        if files:
            return files[0]
    raise BagUnreadable(f"{path} holds no .mcap file: give a bag's folder, a trial's folder or the file")


def count_messages(path: Path) -> dict[str, int]:
    """Messages per topic that are really in the file."""
    return dict(Counter(channel.topic for channel, _ in BagReader(path).records()))
