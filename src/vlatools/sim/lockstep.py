"""The simulated lab in lock-step: the ports driven directly, faster than real time, reproducible.

Time moves only in :meth:`vlatools.sim.clock.SimClock.sleep`. One thread, no sockets, no wall clock; the physics is that of
the served mode.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics
from vlatools.core import Pose
from vlatools.robot.config import RobotConfig
from vlatools.sim import mjcf
from vlatools.sim.clock import SimClock
from vlatools.sim.lockstep_arm import LockstepGripper, LockstepServo
from vlatools.sim.lockstep_camera import CameraOptions, LockstepCamera
from vlatools.sim.scene import SceneConfig, load_scene, sample
from vlatools.sim.world import Truth, World

__all__ = ["FAULTS", "CameraOptions", "LockstepLab"]

Vector = NDArray[np.float64]

FAULTS = ("reflex", "disconnect", "user_stop", "freeze_camera", "unplug_camera", "gripper_hang")


class LockstepLab:
    """A simulated FR3, gripper, camera and table that move only when the clock is told to.

    Args:
        scene: name of a scene in config/scenes, path of a YAML file, or a SceneConfig.
        seed: instance of the scene.
        robot: gains and collision thresholds.
        camera: rate and noise of the camera.

    Attributes:
        clock, servo, gripper, camera: the ports.
        world: the physics; ground truth, for judges and tests only.
    """

    def __init__(
        self,
        scene: str | Path | SceneConfig,
        seed: int = 0,
        robot: RobotConfig | None = None,
        camera: CameraOptions | None = None,
    ) -> None:
        self.config = scene if isinstance(scene, SceneConfig) else load_scene(scene)
        self.world = World(sample(self.config, seed))
        self.clock = SimClock(self.world, self._sense)
        self.servo = LockstepServo(self.world, self.clock, robot or RobotConfig())
        self.gripper = LockstepGripper(self.world, self.clock)
        self.camera = LockstepCamera(self.world, self.clock, camera or CameraOptions(), mjcf.camera_intrinsics())

    @property
    def camera_to_base(self) -> Pose:
        """Pose of the camera's optical frame in fr3_link0."""
        return self.camera.camera_to_base

    @property
    def intrinsics(self) -> Intrinsics:
        """Of the camera."""
        return self.camera.intrinsics

    def truth(self) -> Truth:
        """True state, for judges and tests only."""
        return self.world.truth()

    def teleport(self, name: str, pose: Pose) -> None:
        """Move an object at once; ``pose`` is of the centre of its bounding box."""
        self.world.teleport(name, pose)

    def knock(self, name: str, impulse: Vector) -> None:
        """Hit an object with ``impulse`` (3,) N s; a held one is pushed out of the gripper first."""
        self.world.knock(name, impulse)

    def reset(self, seed: int) -> None:
        """Instance ``seed`` of the scene, arm at home, gripper open, no faults. Time goes on; registered jobs stay.

        The arm jumps: whoever drives it must be idle, and see a new state before it commands again.
        """
        self.world.reset(sample(self.config, seed))
        self.servo.restart()
        self.gripper.restart()
        self.camera.restart()

    def inject(self, fault: str, after_s: float = 0.0, lasts_s: float = math.inf) -> None:
        """Let ``fault`` (one of ``FAULTS``) happen ``after_s`` from now, and end ``lasts_s`` later.

        ``reflex`` is a collision reflex out of nothing; it does not end by itself but by ``recover``.
        """
        if fault not in FAULTS:
            raise ValueError(f"no fault {fault!r}, there are: {', '.join(FAULTS)}")

        def switch(on: bool) -> None:
            match fault:
                case "reflex":
                    if on:
                        self.servo.trip("cartesian_reflex")
                case "disconnect":
                    self.servo.set_connected(not on)
                case "user_stop":
                    self.servo.set_user_stop(on)
                case "freeze_camera":
                    self.camera.frozen = on
                case "unplug_camera":
                    self.camera.unplug() if on else self.camera.restart()
                case "gripper_hang":
                    self.gripper.hang(on)

        self.clock.at(after_s, lambda: switch(True))
        if math.isfinite(lasts_s):
            self.clock.at(after_s + lasts_s, lambda: switch(False))

    def close(self) -> None:
        """Free the renderer."""
        self.camera.close()

    def _sense(self, ticks: int) -> None:
        self.servo.sense(ticks)
