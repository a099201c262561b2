"""The simulation's state in shared memory, so that another process draws its own copy of the scene.

One small file under /dev/shm per domain, written under a sequence lock: the reader never blocks the writer, and never sees
half a state. The scene's description lies beside it as JSON; the generation counts its changes and resets.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ConfigError
from vlatools.sim.scene import SceneInstance

_ROOT = Path("/dev/shm")
_MAGIC = 0x564C4153494D0001
_MAX_Q = 200
_HEAD = 8  # 64-bit words before qpos: magic, sequence, generation, nq, time, stamp, flags, lab time
_SIZE = 8 * (_HEAD + _MAX_Q)
_CAMERA_FROZEN = 1
MAX_AGE_S = 1.0


def _paths(domain: str) -> tuple[Path, Path]:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", domain):
        raise ConfigError(f"domain is {domain!r}: 1 to 40 letters, digits, '_', '-' or '.', e.g. 'default'")
    return _ROOT / f"vlatools-{domain}.state", _ROOT / f"vlatools-{domain}.json"


@dataclass(frozen=True)
class SharedState:
    """One state of the simulation.

    Attributes:
        qpos: MuJoCo's positions (nq,).
        time_s: simulated seconds.
        stamp_s: monotonic time at which it was written.
        lab_s: the shared clock at that time, see :mod:`vlatools.shared_clock`.
        generation: of the scene; see :meth:`StateReader.scene`.
        camera_frozen: the simulated camera is to give no pictures (an injected fault).
    """

    qpos: NDArray[np.float64]
    time_s: float
    stamp_s: float
    lab_s: float
    generation: int
    camera_frozen: bool


class StateWriter:
    """The simulation's end. Raises ConfigError when another simulation writes to the same domain."""

    def __init__(self, domain: str) -> None:
        self._path, self._scene_path = _paths(domain)
        self._file = open(self._path, "a+b")  # noqa: SIM115 - it carries the lock until close()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise ConfigError(f"domain {domain!r} is used by another simulation: stop it or choose another name with --domain") from error
        os.ftruncate(self._file.fileno(), _SIZE)
        self._map = mmap.mmap(self._file.fileno(), _SIZE)
        self._words = np.frombuffer(self._map, np.int64)
        self._reals = np.frombuffer(self._map, np.float64)
        self._words[0] = _MAGIC
        self._words[1] += self._words[1] % 2  # a writer that was killed may have left it odd

    def set_scene(self, instance: SceneInstance) -> None:
        """Publish a new scene or a reset; states written from now on belong to it."""
        partial = self._scene_path.with_suffix(".json.part")
        partial.write_text(instance.to_json())
        partial.replace(self._scene_path)
        self._words[1] += 1
        self._words[2] += 1
        self._words[3] = 0
        self._words[1] += 1

    def write(self, qpos: NDArray[np.float64], time_s: float, lab_s: float) -> None:
        """Publish a state."""
        words, reals = self._words, self._reals
        words[1] += 1
        words[3] = qpos.size
        reals[4], reals[5], reals[7] = time_s, time.monotonic(), lab_s
        reals[_HEAD : _HEAD + qpos.size] = qpos
        words[1] += 1

    def set_camera_frozen(self, frozen: bool) -> None:
        """Tell the camera to give no pictures, or to go on."""
        self._words[6] = _CAMERA_FROZEN if frozen else 0

    def close(self) -> None:
        """Mark the state as dead and let the domain go. The two small files stay, for readers that wait."""
        self._words[1] += 1
        self._reals[5] = -np.inf
        self._words[1] += 1
        del self._words, self._reals
        self._map.close()
        self._file.close()


class StateReader:
    """Another process's end; works before, during and between simulations."""

    def __init__(self, domain: str) -> None:
        self._path, self._scene_path = _paths(domain)
        self._map: mmap.mmap | None = None

    def read(self, max_age_s: float = MAX_AGE_S) -> SharedState | None:
        """Newest state; None while no simulation runs, that is when it is older than ``max_age_s``."""
        if not self._open():
            return None
        for _ in range(100):
            before = int(self._words[1])
            if before % 2 == 0:
                words = self._words[:_HEAD].copy()
                reals = self._reals[: _HEAD + _MAX_Q].copy()
                if int(self._words[1]) == before:
                    break
            time.sleep(0.0002)
        else:
            return None
        count, stamp = int(words[3]), float(reals[5])
        if count == 0 or not time.monotonic() - stamp <= max_age_s:
            return None
        frozen = bool(words[6] & _CAMERA_FROZEN)
        return SharedState(reals[_HEAD : _HEAD + count], float(reals[4]), stamp, float(reals[7]), int(words[2]), frozen)

    def scene(self) -> SceneInstance:
        """The present scene. Raises FileNotFoundError before the first simulation."""
        return SceneInstance.from_json(self._scene_path.read_text())

    def close(self) -> None:
        """Let the memory go."""
        if self._map is not None:
            del self._words, self._reals
            self._map.close()
            self._map = None

    def _open(self) -> bool:
        if self._map is not None:
            return True
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_size != _SIZE:
                    return False
                self._map = mmap.mmap(file.fileno(), _SIZE, prot=mmap.PROT_READ)
        except FileNotFoundError:
            return False
        self._words = np.frombuffer(self._map, np.int64)
        self._reals = np.frombuffer(self._map, np.float64)
        if int(self._words[0]) != _MAGIC:
            self.close()
            return False
        return True
