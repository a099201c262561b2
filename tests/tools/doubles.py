"""Doubles for the tool floor: an arm that follows chunks exactly, scripted policies, a scripted camera."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vlatools.camera.ports import Intrinsics, RgbdFrame
from vlatools.core import (
    ActionChunk,
    ActionSpace,
    ArmFault,
    ChunkRefused,
    Family,
    Invocation,
    ManualClock,
    Pose,
    StaleData,
)
from vlatools.core.pose import slerp
from vlatools.policy.ports import Manifest, Observation, PolicyOutput
from vlatools.robot.ports import ArmMode, ArmState, StreamStatus

HOME = Pose.pointing_down((0.40, 0.0, 0.40))
CAMERA_TO_BASE = Pose(np.array([1.1, 0.0, 0.7]), np.array([0.0, 0.0, 0.0, 1.0]))


class FakeArm:
    """Kinematic arm and gripper on a manual clock. Fields may be changed by a test at any time."""

    def __init__(self, clock: ManualClock, ee: Pose = HOME, width: float = 0.08) -> None:
        self.clock = clock
        self.ee = ee
        self.width = width
        self.graspable = 0.0  # width of what is between the fingers, 0 for nothing
        self.mode = ArmMode.IDLE
        self.errors: tuple[str, ...] = ()
        self.reason = ""
        self.refuse: tuple[str, str] | None = None
        self.ignores_stop = False
        self.dead_since: float | None = None  # the state is no longer updated
        self.chunks: list[ActionChunk] = []
        self.times: list[float] = []
        self.holds = 0
        self.wrench = np.zeros(6)
        self.stuck = False  # the arm does not follow
        self.max_speed = math.inf  # m/s
        self.hangs = False  # the fingers do not
        self.other_stream = ""
        self.on_step: Callable[[FakeArm], None] | None = None
        self._stream = StreamStatus()
        self._chunk: ActionChunk | None = None
        self._target_width = width
        self._last = clock.now()
        self._moving = False

    # physics: brought up to date whenever someone looks
    def _advance(self) -> None:
        now = self.clock.now()
        while self._last < now - 1e-9:
            step = min(0.02, now - self._last)
            self._last += step
            if self.on_step is not None:
                self.on_step(self)
            self._step(step)

    def _step(self, step: float) -> None:
        before = self.ee
        if self._chunk is not None and not self.stuck:
            row = (self._last - self._chunk.stamp_s) / self._chunk.dt - 1.0
            index = int(np.clip(math.floor(row), 0, self._chunk.horizon - 1))
            nxt = min(index + 1, self._chunk.horizon - 1)
            share = float(np.clip(row - index, 0.0, 1.0))
            a, b = self._chunk.actions[index], self._chunk.actions[nxt]
            step_to = a[:3] + share * (b[:3] - a[:3]) - before.position
            share_of_step = min(1.0, self.max_speed * step / max(1e-9, float(np.linalg.norm(step_to))))
            self.ee = Pose(before.position + share_of_step * step_to, slerp(a[3:7], b[3:7], share))
            self._target_width = float(a[7])
        goal = max(self._target_width, self.graspable)
        if not self.hangs:
            self.width += float(np.clip(goal - self.width, -0.1 * step, 0.1 * step))
        self._moving = self.ee.distance_to(before) > 1e-6

    @property
    def holding(self) -> bool:
        return self.graspable > 0 and abs(self.width - self.graspable) < 1e-6 and self._target_width < self.graspable

    def state(self) -> ArmState:
        if self.dead_since is None:
            self._advance()
        stamp = self.clock.now() if self.dead_since is None else self.dead_since
        fault = self.mode in (ArmMode.REFLEX, ArmMode.STOPPED, ArmMode.DISCONNECTED, ArmMode.USER_STOPPED)
        return ArmState(
            stamp_s=stamp,
            mode=self.mode if fault or self._chunk is None else ArmMode.STREAMING,
            ready=not fault and not self.reason,
            reason=self.reason,
            q=np.zeros(7),
            dq=np.zeros(7),
            ee=self.ee,
            wrench=self.wrench,
            standstill=not self._moving and not self.ignores_stop,
            gripper_width=self.width,
            gripper_age_s=0.0,
            gripper_holding=self.holding,
            gripper_busy=abs(self.width - max(self._target_width, self.graspable)) > 1e-6,
            errors=self.errors,
            stream=replace(self._stream, invocation_id=self.other_stream) if self.other_stream else self._stream,
        )

    def send_chunk(self, chunk: ActionChunk) -> None:
        self._advance()
        if self.refuse is not None:
            raise ChunkRefused(*self.refuse)
        self.chunks.append(chunk)
        self.times.append(self.clock.now())
        self._chunk = chunk
        self._stream = StreamStatus(chunk.invocation_id, chunk.index, chunk.horizon * chunk.dt, 0, "")

    def refuse_later(self, why: str) -> None:
        """As over ROS: the refusal only shows in the state."""
        self._stream = replace(self._stream, refused=why)

    def hold(self) -> None:
        self._advance()
        self.holds += 1
        if not self.ignores_stop:
            self._chunk = None

    def wait_standstill(self, timeout_s: float) -> bool:
        deadline = self.clock.now() + timeout_s
        while self.clock.now() < deadline:
            if self.dead_since is None and self.state().standstill:
                return True
            self.clock.sleep(0.02)
        return False

    def disconnect(self) -> None:
        self.dead_since = self.clock.now()


class FakeCamera:
    """Gives frames of one colour, as fresh as the test wants."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.frozen_at: float | None = None
        self.served = 0

    def latest(self, max_age_s: float) -> RgbdFrame:
        stamp = self.clock.now() if self.frozen_at is None else self.frozen_at
        age = self.clock.now() - stamp
        if age > max_age_s:
            raise StaleData("camera", age, max_age_s, "check the camera node")
        self.served += 1
        color = np.zeros((4, 4, 3), np.uint8)
        depth = np.full((4, 4), np.nan, np.float32)
        return RgbdFrame(stamp, self.served, color, depth, Intrinsics(4, 4, 4.0, 4.0, 2.0, 2.0))

    def wait_after(self, stamp_s: float, timeout_s: float) -> RgbdFrame:
        self.clock.sleep(0.05)
        return self.latest(timeout_s)


class ScriptedSession:
    """Progress by a function of the time since its begin; stands where the tool was, or moves slowly up."""

    def __init__(self, policy: ScriptedPolicy, observation: Observation) -> None:
        self.policy = policy
        self.start_s = observation.stamp_s
        self.closed = 0

    def needs_frame(self) -> bool:
        return self.policy.wants_frames

    def infer(self, observation: Observation) -> PolicyOutput:
        self.policy.inferred += 1
        if self.policy.on_infer is not None:
            self.policy.on_infer()
        elapsed = observation.stamp_s - self.start_s
        rows = np.zeros((8, 8))
        rows[:, :3] = observation.arm.ee.position
        rows[:, 2] += 0.005 * np.arange(1, 9)
        rows[:, 3:7] = observation.arm.ee.quat_xyzw
        rows[:, 7] = self.policy.opening if self.policy.opening is not None else observation.arm.gripper_width
        return PolicyOutput(
            rows if self.policy.acts else np.zeros((0, 8)),
            self.policy.progress(elapsed),
            "test",
            self.policy.failed,
            dict(self.policy.claims),
        )

    def close(self) -> None:
        self.closed += 1


class ScriptedPolicy:
    """A policy by fields. ``progress`` maps seconds to progress."""

    def __init__(self, progress: Callable[[float], float] = lambda t: min(1.0, t)) -> None:
        self.progress = progress
        self.opening: float | None = None
        self.acts = True
        self.failed = ""
        self.claims: dict[str, float] = {}
        self.wants_frames = False
        self.on_begin: Callable[[], None] | None = None
        self.on_infer: Callable[[], None] | None = None
        self.inferred = 0
        self.sessions: list[ScriptedSession] = []
        self.manifest = Manifest(
            "scripted",
            "0",
            (Family.REACH, Family.GRASP, Family.MOVE, Family.RELEASE, Family.ROTATE),
            ActionSpace.EE_POSE,
            0.1,
            8,
            5.0,
            ("front",),
        )

    def begin(self, invocation: Invocation, observation: Observation) -> ScriptedSession:
        if self.on_begin is not None:
            self.on_begin()
        self.sessions.append(ScriptedSession(self, observation))
        return self.sessions[-1]


def fault(reason: str) -> Callable[[], None]:
    """Raises an ArmFault when called."""

    def call() -> None:
        raise ArmFault(reason, f"{reason} by the test")

    return call
