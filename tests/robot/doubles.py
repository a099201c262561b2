"""Doubles of servo, gripper and clock, with the faults that are met on real robots."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ArmFault, Pose
from vlatools.robot.fr3 import MAX_OPENING
from vlatools.robot.model import Fr3Model
from vlatools.robot.ports import GripperState, GripperStatus, RobotState

HOME = np.array([0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398])


class TickClock:
    """Manual clock whose ``sleep`` runs registered callbacks at their times, as the lock-step simulation does."""

    def __init__(self) -> None:
        self._now = 100.0
        self._jobs: list[list] = []
        self._inside = False

    def now(self) -> float:
        return self._now

    def every(self, period: float, job: Callable[[], None]) -> None:
        self._jobs.append([self._now + period, period, job])

    def sleep(self, seconds: float) -> None:
        end = self._now + max(0.0, seconds)
        if self._inside:  # a job that waits does not run the others again
            self._now = end
            return
        while self._jobs:
            job = min(self._jobs, key=lambda entry: entry[0])
            if job[0] > end + 1e-9:
                break
            self._now = max(self._now, job[0])
            job[0] += job[1]
            self._inside = True
            try:
                job[2]()
            finally:
                self._inside = False
        self._now = max(self._now, end)


@dataclass
class FakeServo:
    """A first-order arm that follows its reference; faults are attributes to be set by a test.

    Attributes:
        sent: every (time, q, dq) that was commanded.
        error: static joint error that friction or load leaves, rad.
        lag: share of the distance to the reference that is closed per read.
    """

    clock: object
    q: NDArray[np.float64] = field(default_factory=HOME.copy)
    error: NDArray[np.float64] = field(default_factory=lambda: np.zeros(7))
    lag: float = 0.8
    sent: list[tuple[float, NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    errors: tuple[str, ...] = ()
    reflex: bool = False
    user_stopped: bool = False
    disconnected: bool = False
    frozen: bool = False  # the same packet again and again
    silent: bool = False  # read gives None
    zeros: bool = False  # read gives zeros
    ignore_stop: bool = False  # the arm goes on moving
    force: float = 0.0
    recover_s: float = 0.0
    recover_fails: bool = False
    reconnect_fails: int = 0
    command_fault: ArmFault | None = None
    starts: int = 0
    halts: int = 0
    reconnects: int = 0
    closed: bool = False
    robot_clock: Callable[[float], float] = lambda now: now  # the robot's clock at a time of ours

    def __post_init__(self) -> None:
        self._model = Fr3Model()
        self._target = self.q.copy()
        self._read_at = self.clock.now()
        self._dq = np.zeros(7)
        self._following = False
        self._frozen_state: RobotState | None = None

    def read(self) -> RobotState:
        if self.disconnected:
            raise ArmFault("disconnected", "no packet for 1 s")
        now = self.clock.now()
        if self.silent:
            return None  # type: ignore[return-value]
        if self.frozen and self._frozen_state is not None:
            return self._frozen_state
        dt = max(now - self._read_at, 1e-6)
        before = self.q.copy()
        if now > self._read_at:
            if self.ignore_stop:
                self.q = self.q + 0.2 * dt * np.eye(7)[0]
            else:
                self.q = self.q + self.lag * (self._target + self.error - self.q)
            self._read_at = now
            self._dq = (self.q - before) / dt
        state = RobotState(
            stamp_s=now,
            q=np.zeros(7) if self.zeros else self.q.copy(),
            dq=self._dq,
            tau_ext=np.zeros(7),
            ee=Pose.from_matrix(self._model.matrix(self.q)),
            wrench=np.array([0.0, 0.0, self.force, 0.0, 0.0, 0.0]),
            errors=self.errors,
            user_stopped=self.user_stopped,
            reflex=self.reflex,
            in_control=self._following,
        )
        self._frozen_state = state
        return state

    def start(self) -> None:
        self._alive()
        self.starts += 1
        self._following = True
        self._target = self.q - self.error

    def command(self, q: NDArray[np.float64], dq: NDArray[np.float64]) -> None:
        self._alive()
        if self.command_fault is not None:
            fault, self.command_fault = self.command_fault, None
            raise fault
        if not self._following:
            raise AssertionError("command before start")
        self.sent.append((self.clock.now(), q.copy(), dq.copy()))
        self._target = q.copy()

    def robot_time(self) -> float:
        """The double's robot keeps the test's time, unless the test says otherwise."""
        return self.robot_clock(self.clock.now())

    def halt(self) -> None:
        self.halts += 1
        self._following = False

    def recover(self) -> None:
        if self.recover_s:
            self.clock.sleep(self.recover_s)
        if self.recover_fails:
            raise ArmFault("not_cleared", "errors did not clear", self.errors)
        self.errors, self.reflex = (), False

    def reconnect(self) -> None:
        self.reconnects += 1
        if self.reconnect_fails > 0:
            self.reconnect_fails -= 1
            raise ArmFault("disconnected", "the robot does not answer")
        self.disconnected = False

    def close(self) -> None:
        self.closed = True

    def _alive(self) -> None:
        if self.disconnected:
            raise ArmFault("disconnected", "no packet for 1 s")
        if self.reflex or self.user_stopped or self.errors:
            self._following = False
            raise ArmFault("reflex", "the motion was aborted", self.errors)


class FakeGripper:
    """A gripper without a thread: fingers move on a clock, and stop at ``object_width`` when something is between."""

    def __init__(self, clock: object, object_width: float = 0.0) -> None:
        self.clock = clock
        self.object_width = object_width
        self.hangs = False
        self.ignore_moves = 0
        self.error = ""
        self.commands: list[tuple] = []
        self._width = MAX_OPENING
        self._goal = MAX_OPENING
        self._force_on = False
        self._force_wanted = False
        self._id = 0
        self._busy = False
        self._at = clock.now()
        self._speed = 0.1
        self._lock = threading.Lock()

    def _advance(self) -> None:
        now = self.clock.now()
        step = self._speed * (now - self._at)
        self._at = now
        if self.hangs or not self._busy:
            return
        goal = max(self._goal, self.object_width) if self._goal < self._width else self._goal
        delta = goal - self._width
        self._width += float(np.clip(delta, -step, step))
        if abs(goal - self._width) < 1e-6:
            self._busy = False
            self._force_on = self._force_wanted

    def status(self) -> GripperStatus:
        with self._lock:
            self._advance()
            return GripperStatus(
                GripperState(self.clock.now(), self._width, self._force_on), self._busy, self._id, self.error
            )

    def move(self, width: float, speed: float) -> int:
        with self._lock:
            self._advance()
            self.commands.append(("move", width, speed))
            self._id += 1
            self._speed, self._force_on, self._force_wanted = speed, False, False
            if self.ignore_moves > 0:
                self.ignore_moves -= 1
                self._busy = False
            else:
                self._goal, self._busy = width, True
            return self._id

    def grasp(self, force: float, speed: float) -> int:
        with self._lock:
            self._advance()
            self.commands.append(("grasp", force, speed))
            self._id += 1
            self._goal, self._busy, self._speed = 0.0, True, speed
            self._force_on, self._force_wanted = False, True
            return self._id

    def stop(self) -> None:
        with self._lock:
            self._busy = False

    def close(self) -> None:
        self.stop()
