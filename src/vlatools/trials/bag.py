"""A rosbag2 folder (MCAP storage) that survives what ends a process: each flush leaves a readable file behind.

Layout and metadata are those of rosbag2 (version 9, ROS 2 Jazzy and later), so that ``ros2 bag info`` and ``ros2 bag play`` read it.
One thread writes; the callers' ``put`` never blocks. What the bounded queue cannot take is dropped and counted, bulky topics first.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from mcap.writer import CompressionType, IndexType, Writer

from vlatools.core import Clock, VlatoolsError
from vlatools.trials.bag_metadata import BagTopic, TopicCount, offered_qos_yaml, write_metadata
from vlatools.trials.bag_read import count_messages
from vlatools.trials.commit_file import CommitFile

log = logging.getLogger(__name__)

LIBRARY = "vlatools"
_CHUNK_BYTES = 1024 * 1024
_COMMIT_BYTES = 8 * 1024 * 1024
_WAIT_S = 0.1

Payload: TypeAlias = "bytes | Callable[[], bytes]"


class BagError(VlatoolsError):
    """A bag cannot be made, written or closed; the message says why and what to do."""


@dataclass(frozen=True)
class BagLimits:
    """Bounds of one bag.

    Attributes:
        queue_messages, queue_bytes: capacity of the queue in front of the writer; bulky topics may fill half of it.
        flush_s: a message is on disk at most about this long after it was put.
        min_free_bytes: recording ends before the disk has less free than this, so that nothing else on it suffers.
        close_s: longest wait for the writer at the end.
    """

    queue_messages: int = 20_000
    queue_bytes: int = 64 * 1024 * 1024
    flush_s: float = 0.5
    min_free_bytes: int = 256 * 1024 * 1024
    close_s: float = 30.0


@dataclass(frozen=True)
class BagCheck:
    """What closing a bag found.

    Attributes:
        ok: closed, reopened, and every topic holds exactly what was counted while writing.
        error: why recording ended early or the check failed; "" if neither.
        counts: per topic: written, dropped, found on reopening.
        stamps_corrected: receive stamps that went backward and were raised to the one before.
    """

    ok: bool
    error: str
    counts: dict[str, TopicCount]
    stamps_corrected: int

    @property
    def written(self) -> int:
        """Messages in the bag."""
        return sum(count.written for count in self.counts.values())

    @property
    def dropped(self) -> int:
        """Messages that are not in the bag though they came."""
        return sum(count.dropped for count in self.counts.values())


@dataclass
class _Channel:
    """A topic in the file; counts are owned by the writer thread, ``dropped`` by the lock."""

    topic: BagTopic
    id: int
    staged: int = 0
    written: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class _Item:
    channel: _Channel
    stamp_ns: int
    payload: Payload
    size: int


@dataclass
class _Queue:
    """What waits for the writer."""

    items: deque[_Item] = field(default_factory=deque)
    size: int = 0


class BagWriter:
    """Writes one bag. ``add_topic`` and ``put`` may be called from any thread; ``close`` once, at the end.

    Args:
        folder: the bag's folder; made here, must not exist.
        clock: monotonic, for the flush interval.
        limits: see :class:`BagLimits`.

    Raises:
        BagError: the folder exists or cannot be made, or the disk is too full to begin.
    """

    def __init__(self, folder: Path, clock: Clock, limits: BagLimits | None = None) -> None:
        self.folder = folder
        self.path = folder / f"{folder.name}_0.mcap"
        self._clock = clock
        self._limits = limits or BagLimits()
        self._wake = threading.Condition()
        self._queue = _Queue()
        self._channels: dict[str, _Channel] = {}
        self._schema_ids: dict[str, int] = {}
        self._closing = False
        self._error = ""
        self._last_stamp = 0
        self._first_stamp: int | None = None
        self._corrected = 0
        self._pending = False
        try:
            folder.mkdir(parents=True, exist_ok=False)
            self._refuse_full_disk()
            self._file = CommitFile(self.path)
        except OSError as error:
            if not isinstance(error, FileExistsError):
                with suppress(OSError):
                    folder.rmdir()
            raise BagError(f"cannot begin the bag {folder}: {error}: choose another folder or free the disk") from error
        self._mcap = Writer(
            self._file, chunk_size=_CHUNK_BYTES, compression=CompressionType.ZSTD, index_types=IndexType.ALL
        )
        self._mcap_lock = threading.Lock()
        self._mcap.start(profile="ros2", library=LIBRARY)
        self._file.commit()
        self._flushed_s = clock.now()
        self._thread = threading.Thread(target=self._run, name="bag-writer", daemon=True)
        self._thread.start()

    @property
    def error(self) -> str:
        """Why recording ended early; "" while all is well."""
        return self._error

    def add_topic(self, topic: BagTopic) -> None:
        """Register a topic; a second time is the same as once. Raises BagError when its type differs from before."""
        with self._mcap_lock:
            known = self._channels.get(topic.name)
            if known is not None:
                if known.topic.schema.name != topic.schema.name:
                    raise BagError(
                        f"{topic.name} is {topic.schema.name}, the bag holds it as {known.topic.schema.name}: begin a new bag"
                    )
                return
            kind = topic.schema.name
            if kind not in self._schema_ids:
                data = topic.schema.text.encode()
                self._schema_ids[kind] = self._mcap.register_schema(kind, "ros2msg", data)
            metadata = {"offered_qos_profiles": offered_qos_yaml(topic.qos), "topic_type_hash": topic.schema.hash}
            channel_id = self._mcap.register_channel(topic.name, "cdr", self._schema_ids[kind], metadata)
            self._channels[topic.name] = _Channel(topic, channel_id)

    def __contains__(self, topic: str) -> bool:
        return topic in self._channels

    def put(self, topic: str, stamp_ns: int, payload: Payload, size: int | None = None) -> bool:
        """Queue a message; never blocks.

        Args:
            topic: a registered topic.
            stamp_ns: receive time, nanoseconds since the epoch.
            payload: the CDR-serialised message, or a function that makes it (called in the writer thread).
            size: bytes that it takes in the queue; needed for a function.

        Returns:
            False when it was dropped: queue full, or recording has ended with an error.
        """
        channel = self._channels[topic]
        if size is None:
            size = len(payload) if isinstance(payload, bytes) else 0
        share = 0.5 if channel.topic.bulky else 1.0
        with self._wake:
            full = (
                len(self._queue.items) >= share * self._limits.queue_messages
                or self._queue.size + size > share * self._limits.queue_bytes
            )
            if full or self._closing or self._error:
                channel.dropped += 1
                return False
            self._queue.items.append(_Item(channel, stamp_ns, payload, size))
            self._queue.size += size
            self._wake.notify()
        return True

    def counts(self) -> dict[str, TopicCount]:
        """Per topic, what is on disk and what was dropped so far."""
        # Without the lock: it is held while the disk syncs, and a snapshot of integers needs none.
        channels = list(self._channels.items())
        return {name: TopicCount(c.topic.schema.name, c.written, c.dropped) for name, c in channels}

    def close(self) -> BagCheck:
        """Write what is queued, end the file, write metadata.yaml, reopen the bag and count. Never raises; see ``ok``."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(self._limits.close_s)
        if self._thread.is_alive():
            self._fail(f"the writer did not finish within {self._limits.close_s:g} s: the disk is too slow or hangs")
            return BagCheck(False, self._error, self.counts(), self._corrected)
        self._end_file()
        counts = self.counts()
        try:
            span = (self._first_stamp or 0, self._last_stamp)
            write_metadata(self.folder, self.path.name, list(self._topics()), counts, span)
            found = count_messages(self.path)
        except OSError as error:
            self._fail(f"the bag's metadata could not be written: {error}")
            found = {}
        counts = {name: replace(count, found=found.get(name, 0)) for name, count in counts.items()}
        wrong = [name for name, count in counts.items() if count.found != count.written]
        if wrong and not self._error:
            self._fail(f"reopening found other counts than were written for {wrong}: check the disk")
        return BagCheck(not self._error and not wrong, self._error, counts, self._corrected)

    def _topics(self) -> list[BagTopic]:
        return [channel.topic for channel in self._channels.values()]

    def _run(self) -> None:
        try:
            while self._step():
                pass
            self._flush()
        except OSError as error:
            self._fail(f"recording ended: {error}: what was written until then stays readable")
        except Exception as error:
            log.exception("bag writer")
            self._fail(f"recording ended by a fault of the writer: {error!r}")
        finally:
            with self._wake:
                for item in self._queue.items:
                    item.channel.dropped += 1
                self._queue = _Queue()
                for channel in self._channels.values():
                    channel.dropped += channel.staged
                    channel.staged = 0

    def _step(self) -> bool:
        """Write the next message; False when closing and nothing waits any more."""
        with self._wake:
            if not self._queue.items and not self._closing:
                self._wake.wait(_WAIT_S)
            item = self._queue.items.popleft() if self._queue.items else None
            if item is None and self._closing:
                return False
            self._queue.size -= item.size if item is not None else 0
        if item is not None:
            self._write(item)
        if self._file.staged_bytes >= _COMMIT_BYTES or self._clock.now() - self._flushed_s >= self._limits.flush_s:
            self._flush()
        return True

    def _write(self, item: _Item) -> None:
        try:
            data = item.payload if isinstance(item.payload, bytes) else item.payload()
        except Exception as error:
            log.warning("a message on %s could not be encoded and is dropped: %s", item.channel.topic.name, error)
            with self._wake:
                item.channel.dropped += 1
            return
        stamp = item.stamp_ns
        if stamp < self._last_stamp:
            # The wall clock was set back; order within a bag never is.
            stamp = self._last_stamp
            self._corrected += 1
        self._last_stamp = stamp
        if self._first_stamp is None:
            self._first_stamp = stamp
        with self._mcap_lock:
            self._mcap.add_message(
                channel_id=item.channel.id,
                log_time=stamp,
                publish_time=item.stamp_ns,
                data=data,
                sequence=(item.channel.written + item.channel.staged) & 0xFFFFFFFF,
            )
        item.channel.staged += 1
        self._pending = True

    def _flush(self) -> None:
        """Finish the chunk and put it on disk; raises OSError when the disk does not take it."""
        self._flushed_s = self._clock.now()
        if not self._pending:
            return
        self._refuse_full_disk()
        with self._mcap_lock:
            self._mcap.flush()
            self._file.commit()
            for channel in self._channels.values():
                channel.written += channel.staged
                channel.staged = 0
        self._pending = False

    def _refuse_full_disk(self) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < self._limits.min_free_bytes:
            raise OSError(
                f"the disk of {self.folder} has {free / 1e6:.0f} MB free, the limit is {self._limits.min_free_bytes / 1e6:.0f} MB"
                ": free some space or record elsewhere"
            )

    def _end_file(self) -> None:
        try:
            if self._error:
                # The library's summary would name the chunk that did not reach the disk.
                self._file.end_without_summary()
            else:
                self._mcap.finish()
                self._file.commit()
        except OSError as error:
            self._fail(f"the bag could not be ended: {error}: `vlatools bag repair` mends it")
        finally:
            self._file.close()

    def _fail(self, message: str) -> None:
        with self._wake:
            self._error = self._error or message
        log.error("bag %s: %s", self.folder, message)
