"""A file that grows by whole commits: after a failed write it is cut back to the last one that succeeded."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

_MAGIC = struct.pack("<8B", 137, 77, 67, 65, 80, 48, 13, 10)
_DATA_END, _FOOTER = 0x0F, 0x02


class CommitFile:
    """Output stream for ``mcap.writer.Writer``: ``write`` only stages, ``commit`` writes, and syncs to the disk.

    Raises:
        OSError: by the constructor when the file exists or cannot be made, by ``commit`` when the disk takes no more.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._parts: list[bytes] = []
        self._committed = 0
        self.staged_bytes = 0

    def write(self, data: bytes) -> int:
        """Stage bytes."""
        if data:
            self._parts.append(bytes(data))
            self.staged_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """Length of the file with what is staged."""
        return self._committed + self.staged_bytes

    def flush(self) -> None:
        """Nothing: only ``commit`` writes."""

    def commit(self) -> None:
        """Put what is staged on the disk, all of it or nothing."""
        data = memoryview(b"".join(self._parts))
        self._parts.clear()
        self.staged_bytes = 0
        end = self._committed + len(data)
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._committed)
                os.lseek(self._fd, self._committed, os.SEEK_SET)
            raise
        self._committed = end

    def end_without_summary(self) -> None:
        """Drop what is staged and end the file as a valid MCAP that has no summary (a few dozen bytes)."""
        self._parts = [
            struct.pack("<BQI", _DATA_END, 4, 0),
            struct.pack("<BQQQI", _FOOTER, 20, 0, 0, 0),
            _MAGIC,
        ]
        self.staged_bytes = sum(map(len, self._parts))
        self.commit()

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
