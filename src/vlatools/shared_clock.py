"""The simulated lab's time, shared between processes: a simulation that runs slowly makes all its nodes live slowly.

Without it a busy machine tears the graph apart: chunks and ages would run on the host's time while the arm moves on the
simulation's. It is what ``use_sim_time`` is elsewhere, read from shared memory instead of a topic. One file under /dev/shm a
domain; the simulation writes it at every step, everybody else reads. Time never goes back, not even over a restart of the
simulation, and runs on with the host's clock while no simulation writes.
"""

from __future__ import annotations

import mmap
import os
import time
from functools import lru_cache
from pathlib import Path

from vlatools.core.clock import Clock, MonotonicClock

VARIABLE = "VLATOOLS_CLOCK"
_SIZE = 32  # sequence (odd while it is being written), lab time s, host's monotonic time of writing s, epoch offset s; 64 bits each
_CARRY_S = 0.01  # the clock is carried on for so long after a step
_GONE_S = 0.5  # a simulation that has written nothing for so long stands or is gone: time runs on without it
_NAP_S = 0.001
_READS = 200


def _path(domain: str) -> Path:
    return Path("/dev/shm") / f"vlatools-{domain}.clock"


def _views(memory: mmap.mmap) -> tuple[memoryview[int], memoryview[float]]:
    """Native 64-bit stores and loads: no value is ever half of two."""
    return memoryview(memory).cast("Q"), memoryview(memory).cast("d")


def _at(lab_s: float, written_s: float, now_s: float) -> float:
    """Lab time at the host's monotonic time ``now_s``."""
    since = now_s - written_s
    return lab_s + min(max(since, 0.0), _CARRY_S) + max(0.0, since - _GONE_S)


class SharedClockWriter:
    """The simulation's end.

    Args:
        domain: the simulation's name; checked by :class:`vlatools.sim.state_share.StateWriter`, which also keeps a second writer out.
    """

    def __init__(self, domain: str) -> None:
        before = SharedClock(domain)
        self._lab_s, self._epoch_s = before.now(), before.epoch_offset_s
        before.close()
        file = os.open(_path(domain), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(file, _SIZE)
            self._map = mmap.mmap(file, _SIZE)
        finally:
            os.close(file)
        self._words, self._reals = _views(self._map)
        self._words[0] += self._words[0] % 2  # a writer that was killed may have left it odd
        self._sim_s = 0.0
        self._written_s = time.monotonic()
        self._write(self._written_s)

    def step(self, sim_s: float) -> None:
        """The simulation has come to ``sim_s`` seconds of its own time."""
        now = time.monotonic()
        self._lab_s += max(0.0, sim_s - self._sim_s)
        stood = now - self._written_s - _GONE_S
        if stood > 0:  # readers have run on meanwhile
            self._lab_s += stood + _CARRY_S
        self._sim_s = sim_s
        self._write(now)

    def now(self) -> float:
        """Lab time of the last step."""
        return self._lab_s

    def close(self) -> None:
        """Let the memory go; the file stays for readers, whose time runs on."""
        self._words.release()
        self._reals.release()
        self._map.close()

    def _write(self, now: float) -> None:
        self._written_s = now
        self._words[0] += 1
        self._reals[1], self._reals[2], self._reals[3] = self._lab_s, now, self._epoch_s
        self._words[0] += 1


class SharedClock:
    """A reader's end. Implements ``Clock``; works before, during and between simulations."""

    def __init__(self, domain: str) -> None:
        self._path = _path(domain)
        self._map: mmap.mmap | None = None
        self._last_s = -1.0
        self._values = (0.0, 0.0, 0.0)

    def now(self) -> float:
        """Lab time, seconds; close to the host's monotonic time while the simulation keeps up."""
        lab_s, written_s, _ = self._read()
        # Readers round and the simulation's step is carried on: what was told stays told.
        self._last_s = max(self._last_s, _at(lab_s, written_s, time.monotonic()))
        return self._last_s

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds`` of lab time."""
        end = self.now() + max(0.0, seconds)
        while (left := end - self.now()) > 0:
            time.sleep(max(_NAP_S, left))

    @property
    def epoch_offset_s(self) -> float:
        """Seconds since 1970 less lab time: constant over the life of a domain."""
        return self._read()[2]

    def close(self) -> None:
        """Let the memory go."""
        if self._map is not None:
            self._words.release()
            self._reals.release()
            self._map.close()
            self._map = None

    def _read(self) -> tuple[float, float, float]:
        if self._map is None and not self._open():
            now = time.monotonic()
            return now, now, time.time() - now
        assert self._map is not None
        words, reals = self._words, self._reals
        for _ in range(_READS):
            before = words[0]
            values = reals[1], reals[2], reals[3]
            if before % 2 == 0 and words[0] == before:
                self._values = values
                break
        # A writer that was stopped in the middle of a write: what was read last.
        return self._values

    def _open(self) -> bool:
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_size != _SIZE:
                    return False
                found = mmap.mmap(file.fileno(), _SIZE, prot=mmap.PROT_READ)
        except FileNotFoundError:
            return False
        words, reals = _views(found)
        if not reals[2]:  # made, not yet written
            words.release()
            reals.release()
            found.close()
            return False
        self._values = reals[1], reals[2], reals[3]
        self._words, self._reals, self._map = words, reals, found
        return True


@lru_cache
def _clock_of(domain: str) -> Clock:
    return SharedClock(domain) if domain else MonotonicClock()


def lab_clock() -> Clock:
    """The clock that this process lives by: the host's, or that of the simulation which the environment names."""
    return _clock_of(os.environ.get(VARIABLE, ""))


def lab_now() -> float:
    """``lab_clock().now()``."""
    return lab_clock().now()
