"""The simulated lab in lock-step: the ports driven directly, faster than real time, reproducible.

Time moves only in :meth:`SimClock.sleep`. One thread, no sockets, no wall clock; the physics is that of the served mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics, RgbdFrame
from vlatools.core import ArmFault, Pose, StaleData
from vlatools.robot.config import RobotConfig
from vlatools.robot.ports import GripperState, GripperStatus, RobotState
from vlatools.sim import depth_noise, mjcf
from vlatools.sim.forces import ForceSense, Thresholds
from vlatools.sim.render import SceneRenderer
from vlatools.sim.scene import SceneConfig, load_scene, sample
from vlatools.sim.world import Truth, World

Vector = NDArray[np.float64]

_SENSE_TICKS = 5  # contacts are looked at this often
_STOP_S = 0.08  # the robot's own stop takes about this long
_GRIPPER_DEADLINE_S = 5.0
FAULTS = ("reflex", "disconnect", "user_stop", "freeze_camera", "unplug_camera", "gripper_hang")


@dataclass
class _Job:
    period: int
    due: int
    work: Callable[[], None]


class SimClock:
    """Simulated monotonic time, in steps of 1 ms. ``sleep`` advances the world and runs what is registered at its time."""

    def __init__(self, world: World, sense: Callable[[int], None]) -> None:
        self._world = world
        self._sense = sense
        self._jobs: list[_Job] = []
        self._inside = False

    def now(self) -> float:
        """Simulated seconds; starts at 0 and never goes back."""
        return self._world.ticks * mjcf.TIMESTEP

    def every(self, period_s: float, work: Callable[[], None]) -> Callable[[], None]:
        """Call ``work`` every ``period_s`` from one period from now on; call what is returned to end that.

        At equal times jobs run in the order in which they were registered.
        """
        period = round(period_s / mjcf.TIMESTEP)
        if period < 1:
            raise ValueError(f"a period of {period_s} s is shorter than the simulation's step of {mjcf.TIMESTEP} s")
        job = _Job(period, self._world.ticks + period, work)
        self._jobs.append(job)

        def end() -> None:
            if job in self._jobs:
                self._jobs.remove(job)

        return end

    def at(self, after_s: float, work: Callable[[], None]) -> None:
        """Call ``work`` once, ``after_s`` from now."""

        def once() -> None:
            end()
            work()

        end = self.every(max(after_s, mjcf.TIMESTEP), once)

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass; rounded up to whole milliseconds.

        Raises:
            RuntimeError: called from a registered job: nothing else could run meanwhile, so a job must never wait.
        """
        ticks = math.ceil(seconds / mjcf.TIMESTEP - 1e-6)
        if ticks <= 0:
            return
        if self._inside:
            raise RuntimeError("sleep inside a periodic job: a job must return, not wait")
        end = self._world.ticks + ticks
        while self._world.ticks < end:
            stop = min([end, self._world.ticks + _SENSE_TICKS, *(job.due for job in self._jobs)])
            step = stop - self._world.ticks
            self._world.advance(step)
            self._sense(step)
            self._run_due()

    def _run_due(self) -> None:
        self._inside = True
        try:
            for job in [job for job in self._jobs if job.due <= self._world.ticks]:
                job.due += job.period
                job.work()
        finally:
            self._inside = False


class LockstepServo:
    """Implements ``JointServo`` on MuJoCo: franky's joint impedance law, and the FR3's reflexes."""

    def __init__(self, world: World, clock: SimClock, config: RobotConfig) -> None:
        self._world = world
        self._clock = clock
        self._gains = (np.array(config.stiffness), np.array(config.damping))
        self._limits = Thresholds(
            np.full(7, config.collision_torque), np.array([config.collision_force] * 3 + [config.collision_force / 2] * 3)
        )
        self._senses = ForceSense(world)
        self.restart()

    def restart(self) -> None:
        """The world was reset: at rest, without errors."""
        self._senses.clear()
        self._errors: tuple[str, ...] = ()
        self._connected = True
        self._user_stopped = False
        self._following = False
        self._world.set_gains(*self._gains)
        self._hold()

    def read(self) -> RobotState:
        """See JointServo."""
        self._check_connection()
        world = self._world
        world.update_kinematics()
        return RobotState(
            stamp_s=self._clock.now(),
            q=world.q,
            dq=world.dq,
            tau_ext=self._senses.tau.copy(),
            ee=world.ee_pose(),
            wrench=self._senses.wrench.copy(),
            errors=self._errors,
            user_stopped=self._user_stopped,
            reflex=bool(self._errors),
            in_control=self._following,
        )

    def start(self) -> None:
        """See JointServo."""
        self._check_connection()
        self._check_fit()
        self._hold()
        self._following = True

    def command(self, q: Vector, dq: Vector) -> None:
        """See JointServo."""
        self._check_connection()
        self._check_fit()
        if not self._following:
            raise ArmFault("motion_ended", "the motion has ended: start a new one")
        self._world.set_reference(np.asarray(q, float), np.asarray(dq, float))

    def robot_time(self) -> float:
        """Simulated time: in lock-step the robot's clock is the clock."""
        return self._clock.now()

    def halt(self) -> None:
        """See JointServo."""
        if self._connected:
            self._brake()

    def recover(self) -> None:
        """See JointServo."""
        self._check_connection()
        if self._user_stopped:
            raise ArmFault("user_stop", "the user stop button is pressed: release it first")
        self._errors = ()
        self._senses.clear()
        self._hold()

    def reconnect(self) -> None:
        """See JointServo."""
        self._check_connection()

    def close(self) -> None:
        """See JointServo."""
        self.halt()

    def sense(self, ticks: int) -> None:
        """Feel the contacts of the last step; trips the reflex as the FR3 does, in motion only."""
        self._senses.update(ticks)
        if self._following and not self._errors:
            name = self._senses.tripped(self._limits)
            if name:
                self.trip(name)

    def trip(self, error: str) -> None:
        """The robot stops itself with ``error``."""
        self._errors = (error,)
        self._following = False
        self._hold()  # at the place itself, so that it does not press on against what it hit

    def set_connected(self, on: bool) -> None:
        """Cut or mend the connection; a robot that loses its client brakes."""
        self._connected = on
        if not on:
            self._brake()

    def set_user_stop(self, pressed: bool) -> None:
        """Press or release the user stop."""
        self._user_stopped = pressed
        if pressed:
            self._brake()

    def _brake(self) -> None:
        """The robot's own stop: from the present speed to rest within some hundredths of a second."""
        if self._following:
            self._following = False
            self._world.set_reference(self._world.q + self._world.dq * _STOP_S / 2, np.zeros(7))

    def _hold(self) -> None:
        self._world.set_reference(self._world.q, np.zeros(7))

    def _check_connection(self) -> None:
        if not self._connected:
            raise ArmFault("disconnected", "the connection to the simulated robot is cut")

    def _check_fit(self) -> None:
        if self._user_stopped:
            self._following = False
            raise ArmFault("user_stop", "the user stop button is pressed: release it")
        if self._errors:
            raise ArmFault("reflex", f"the robot has stopped itself: {', '.join(self._errors)}", self._errors)


class LockstepGripper:
    """Implements ``Gripper`` on MuJoCo's fingers; what it holds, it holds by friction."""

    def __init__(self, world: World, clock: SimClock) -> None:
        self._world = world
        self._clock = clock
        self._command_id = 0
        self.restart()

    def restart(self) -> None:
        """The world was reset: open, no command."""
        self._busy = False
        self._grasping = False
        self._force_on = False
        self._hung = False
        self._words = ""
        self._deadline = math.inf
        self._error = ""

    def status(self) -> GripperStatus:
        """See Gripper."""
        if self._busy and self._clock.now() > self._deadline:
            self._busy = False
            self._error = f"gripper_timeout: {self._words} did not end within {_GRIPPER_DEADLINE_S} s: check the gripper"
        elif self._busy and not self._hung and self._world.fingers_settled():
            self._busy = False
            self._force_on = self._grasping
        state = GripperState(self._clock.now(), self._world.gripper_width, self._force_on)
        return GripperStatus(state, self._busy, self._command_id, self._error)

    def move(self, width: float, speed: float) -> int:
        """See Gripper."""
        self._begin(f"move to {1000 * width:.1f} mm", grasping=False)
        if not self._hung:
            self._world.move_fingers(width, speed / 2)
        return self._command_id

    def grasp(self, force: float, speed: float) -> int:
        """See Gripper."""
        self._begin(f"grasp with {force:.0f} N", grasping=True)
        if not self._hung:
            self._world.grasp(0.0, speed / 2, force)
        return self._command_id

    def stop(self) -> None:
        """See Gripper."""
        if self._busy and not self._hung:
            self._world.hold_fingers()
        self._busy = False

    def close(self) -> None:
        """See Gripper."""
        self.stop()

    def hang(self, on: bool) -> None:
        """From now on commands do nothing and do not end."""
        self._hung = on

    def _begin(self, words: str, grasping: bool) -> None:
        self._command_id += 1
        self._busy, self._grasping, self._words, self._error = True, grasping, words, ""
        self._force_on = False
        self._deadline = self._clock.now() + _GRIPPER_DEADLINE_S


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
