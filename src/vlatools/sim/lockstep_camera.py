"""Camera port of the lock-step simulation: it exposes at its frame instants, and draws only what is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics, RgbdFrame
from vlatools.core import Pose, StaleData
from vlatools.sim import depth_noise
from vlatools.sim.clock import SimClock
from vlatools.sim.render import SceneRenderer
from vlatools.sim.world import World

Vector = NDArray[np.float64]


@dataclass
class _Exposure:
    number: int
    stamp_s: float
    qpos: Vector
    frame: RgbdFrame | None = None


@dataclass
class CameraOptions:
    """Of the simulated camera: frame rate (Hz), depth noise, seed of the noise."""

    rate_hz: float = 15.0
    noise: depth_noise.DepthNoise = field(default_factory=lambda: depth_noise.D435)
    seed: int = 0


class LockstepCamera:
    """Implements ``RgbdCamera``: exposes at its frame instants, draws only what is asked for."""

    def __init__(self, world: World, clock: SimClock, options: CameraOptions, intrinsics: Intrinsics) -> None:
        self._world = world
        self._clock = clock
        self._options = options
        self.intrinsics = intrinsics
        self._renderer: SceneRenderer | None = None
        self._number = 0
        self.restart()
        clock.every(1.0 / options.rate_hz, self._expose)

    def restart(self) -> None:
        """The world was reset: the camera runs, and has a frame of it."""
        self.frozen = False
        self._newest: _Exposure | None = None
        self._expose()

    @property
    def camera_to_base(self) -> Pose:
        """Pose of the optical frame in fr3_link0."""
        return self._world.instance.camera_to_base

    def latest(self, max_age_s: float) -> RgbdFrame:
        """See RgbdCamera."""
        shot = self._newest
        age = math.inf if shot is None else self._clock.now() - shot.stamp_s
        if shot is None or age > max_age_s:
            raise StaleData("camera", age, max_age_s, "is the camera connected?")
        return self._draw(shot)

    def wait_after(self, stamp_s: float, timeout_s: float) -> RgbdFrame:
        """See RgbdCamera."""
        end = self._clock.now() + timeout_s
        while self._newest is None or self._newest.stamp_s <= stamp_s:
            if self._clock.now() >= end:
                age = math.inf if self._newest is None else self._clock.now() - self._newest.stamp_s
                raise StaleData("camera", age, timeout_s, f"no frame came within {timeout_s:.1f} s: is it connected?")
            self._clock.sleep(0.005)
        return self._draw(self._newest)

    def unplug(self) -> None:
        """No more frames, and the last one is gone."""
        self.frozen = True
        self._newest = None

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _expose(self) -> None:
        if not self.frozen:
            self._number += 1
            self._newest = _Exposure(self._number, self._clock.now(), self._world.data.qpos.copy())

    def _draw(self, shot: _Exposure) -> RgbdFrame:
        if shot.frame is None:
            if self._renderer is None:
                self._renderer = SceneRenderer(self._world.instance, self.intrinsics.width, self.intrinsics.height)
            self._renderer.show(self._world.instance)
            color, depth = self._renderer.draw(shot.qpos)
            rng = np.random.default_rng([self._options.seed, self._world.instance.seed, shot.number])
            depth = depth_noise.apply(depth, rng, self._options.noise)
            shot.frame = RgbdFrame(shot.stamp_s, shot.number, color, depth, self.intrinsics)
        return shot.frame
