"""The arm: one control loop that turns chunks and primitives into a limited joint reference, watches the robot, and stops.

``tick`` is called at the control rate: by :meth:`ArmController.spin` in a thread of the driver process, by the clock's
``sleep`` in the lock-step simulation. All other methods may be called from any thread.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ActionChunk, ArmFault, CancelToken, Clock, Outcome, Rejected, StaleData
from vlatools.robot.config import ArmConfig
from vlatools.robot.drive import Drive
from vlatools.robot.goal import End, Goal
from vlatools.robot.gripper import GripperControl
from vlatools.robot.ports import (
    ArmMode,
    ArmState,
    Gripper,
    JointServo,
    Primitive,
    PrimitiveFeedback,
    PrimitiveResult,
)
from vlatools.robot.primitives import PrimitiveRunner
from vlatools.robot.supervisor import Background, Refusal, Supervisor

Vector = NDArray[np.float64]

_LOG = logging.getLogger(__name__)
_PACE_S = 0.002
_LONGEST_PERIODS = 5  # a robot that sends nothing for so long is looked at all the same


@dataclass(frozen=True)
class LoopTimes:
    """How the control loop ran since it was asked last: periods per second, longest tick, longest time between two."""

    rate_hz: float
    worst_tick_s: float
    worst_gap_s: float


def run_in_thread(work: Callable[[], None]) -> None:
    """Default for slow work that must not stop the control loop: a daemon thread."""
    threading.Thread(target=work, daemon=True, name="arm-maintenance").start()


class ArmController:
    """Implements the ``Arm`` port over a :class:`JointServo` and a :class:`Gripper`.

    Args:
        servo: follows the joint reference; used only by the control loop, except while recovering or reconnecting.
        gripper: never blocks.
        config: limits, speeds, home.
        clock: monotonic; its ``sleep`` is the only way to wait.
        background: runs recovery and reconnection; a thread, or a direct call in lock-step.
    """

    def __init__(
        self,
        servo: JointServo,
        gripper: Gripper,
        config: ArmConfig,
        clock: Clock,
        background: Background = run_in_thread,
    ) -> None:
        self.config = config
        self.clock = clock
        self.lock = threading.RLock()  # guards everything that the control loop touches
        self.gripper = GripperControl(gripper, config.gripper, config.stream.gripper_hysteresis)
        self._servo = servo
        self._watch = Supervisor(servo, config, clock, background, self.lock)
        self._drive = Drive(config, self.gripper)
        self._reference, self._stream = self._drive.reference, self._drive.stream
        self._runner = PrimitiveRunner(self)
        self._following = False  # the servo follows our reference
        self._goal: Goal | None = None
        self._closed = False
        self._ticks, self._worst_tick, self._worst_gap = 0, 0.0, 0.0
        self._asked_s = self._ticked_s = clock.now()
        self._advanced_robot_s = -math.inf  # on the robot's clock

    # -- the control loop -----------------------------------------------------------------------------------------
    def spin(self, until: threading.Event) -> None:
        """Call ``tick`` at the control rate until ``until`` is set. A late tick delays the next ones: none is caught up,
        so that the robot never sees two references in less than a period. Periods are the robot's: when a simulation or
        the host stalls, the next tick waits for it (up to ``_LONGEST_PERIODS``, then it only looks)."""
        period = self.config.period_s
        while not until.is_set():
            begin = self.clock.now()
            self.tick()
            end = self.clock.now()
            self._ticks += 1
            self._worst_tick = max(self._worst_tick, end - begin)
            self._worst_gap = max(self._worst_gap, begin - self._ticked_s)
            self._ticked_s = begin
            self.clock.sleep(max(0.0, period - (end - begin)))
            while self.clock.now() - begin < _LONGEST_PERIODS * period and not until.is_set():
                if self._servo.robot_time() - self._advanced_robot_s >= period - _PACE_S:
                    break
                self.clock.sleep(_PACE_S)

    def loop_times(self) -> LoopTimes:
        """How :meth:`spin` has run since the last call of this."""
        now = self.clock.now()
        times = LoopTimes(self._ticks / max(now - self._asked_s, 1e-3), self._worst_tick, self._worst_gap)
        self._ticks, self._worst_tick, self._worst_gap, self._asked_s = 0, 0.0, 0.0, now
        return times

    def tick(self) -> None:
        """One control period: read, judge, advance the reference, command. Raises nothing that the robot causes."""
        with self.lock:
            now = self.clock.now()
            self._watch.ticked(now)
            if self._closed:
                return
            self._watch.try_reconnect(now)
            if self._watch.maintenance is not None or not self._measure(now):
                return
            if self._robot_stalls():
                return
            try:
                self._advance(now)
            except ArmFault as fault:
                self._on_fault(fault, now)
            except Exception as error:  # the loop must live on to hold the arm, whatever a target did to it
                _LOG.exception("control loop")
                self._void("internal_error", f"{type(error).__name__} in the control loop: {error}; see the log")
                self._drop_servo()

    def _robot_stalls(self) -> bool:
        """Whether the robot's clock has not gone on by a period since the last advance: then the reference waits, too."""
        robot = self._servo.robot_time()
        if robot - self._advanced_robot_s < self.config.period_s - _PACE_S:
            return True
        self._advanced_robot_s = robot
        return False

    def _measure(self, now: float) -> bool:
        """Read the robot and judge it; False when there is nothing to drive."""
        try:
            self._watch.read(now, self._reference.at_rest or not self._following)
        except ArmFault as fault:
            self._on_fault(fault, now)
            return False
        if self._watch.state is None:
            return False
        problem = self._watch.problem(now)
        if problem is None:
            return True
        self._void(*problem)
        self._drop_servo()
        if self._watch.may_recover_by_itself(now):
            self._watch.recover_by_itself(now)
        return False

    def _advance(self, now: float) -> None:
        """Advance the reference by one period and command it."""
        state = self._watch.state
        assert state is not None
        goal = self._goal
        if goal is not None and (goal.end is not None or goal.token.canceled or not goal.needs_arm):
            goal = None
        streaming = goal is None and self._goal is None and self._stream.active(now)
        if self._watch.latch is not None:
            goal, streaming = None, False
            if self._following and self._watch.standstill(now):
                self._drop_servo()
        if (goal is not None or streaming) and not self._following:
            self._servo.start()
            self._following = True
            self._reference.reset(state.q)
        if not self._following:
            return
        if goal is not None and goal.trajectory is not None:
            self._drive.follow_goal(goal, state)
        elif streaming:
            self._drive.follow_stream(now, state)
        else:
            self._drive.brake()
        touched = self._drive.contact(state) if goal is not None or streaming else None
        if touched is not None:
            self._void(*touched)
        self._servo.command(self._reference.q, self._reference.v)

    # -- faults ---------------------------------------------------------------------------------------------------
    def _void(self, reason: str, message: str, outcome: Outcome = Outcome.FAULT) -> None:
        """End the goal and the stream; only a new goal moves the arm again."""
        if self._goal is not None:
            self._goal.finish(End(outcome, reason, message))
        self._stream.end(reason, message)
        self._drive.forget_contact()

    def _drop_servo(self, always: bool = False) -> None:
        """Stop following; the next goal starts anew from the measured position."""
        if self._following or always:
            self._following = False
            self._reference.reset(self._reference.q)
            self._servo.halt()

    def _on_fault(self, fault: ArmFault, now: float) -> None:
        _LOG.warning("%s: %s", fault.reason, fault)
        self._void(fault.reason, str(fault))
        if fault.reason == "disconnected":
            self._following = False
            self._advanced_robot_s = -math.inf  # the next connection has another clock
            self._watch.disconnected(now)
        else:
            self._watch.failed(fault, now)
            self._drop_servo()

    # -- Arm: state -----------------------------------------------------------------------------------------------
    def state(self) -> ArmState:
        """Newest state. Raises StaleData when the robot's state is older than ``state_max_age_s``, or there is none."""
        with self.lock:
            now = self.clock.now()
            report = self.report()
            if report is None or not self._watch.fresh(now):
                why = self.refusal()
                fix = why[1] if why is not None else "check the connection to the robot"
                raise StaleData("arm_state", self._watch.age(now), self.config.state_max_age_s, fix)
            return report

    def report(self) -> ArmState | None:
        """The last measured state with the present mode, however old; None before the first measurement."""
        with self.lock:
            now, state = self.clock.now(), self._watch.state
            if state is None:
                return None
            gripper, why = self.gripper.status(), self.refusal()
            measured = gripper.state
            return ArmState(
                stamp_s=state.stamp_s,
                mode=self.mode(),
                ready=why is None,
                reason="" if why is None else why[1],
                q=state.q,
                dq=state.dq,
                ee=state.ee,
                wrench=state.wrench,
                standstill=self._watch.standstill(now),
                gripper_width=measured.width if measured is not None else np.nan,
                gripper_age_s=now - measured.stamp_s if measured is not None else np.inf,
                gripper_holding=self.gripper.holds(),
                gripper_busy=gripper.busy,
                errors=state.errors,
                success_rate=state.success_rate,
                stream=self._stream.status(now),
            )

    def mode(self) -> ArmMode:
        """Present mode; the most serious one wins."""
        with self.lock:
            now = self.clock.now()
            forbidden = self._watch.mode(now)
            if forbidden is not None:
                return forbidden
            if self._goal is not None and self._goal.needs_arm:
                return ArmMode.MOVING
            return ArmMode.STREAMING if self._stream.active(now) else ArmMode.IDLE

    def refusal(self) -> Refusal | None:
        """(reason, what to do) why a goal would be refused now; None when it would be accepted."""
        with self.lock:
            return self._watch.refusal(self.clock.now())

    # -- Arm: motion ----------------------------------------------------------------------------------------------
    def send_chunk(self, chunk: ActionChunk) -> None:
        """Give targets to the stream. Raises ChunkRefused with the reason; it also shows in ``state().stream.refused``."""
        with self.lock:
            now = self.clock.now()
            why = self.refusal()
            if why is not None:
                raise self._stream.refuse(*why)
            if self._goal is not None:
                raise self._stream.refuse(
                    "busy", f"primitive {self._goal.name} is running: wait for its end or cancel it"
                )
            state = self._watch.state
            assert state is not None
            if not self._stream.active(now):
                self.gripper.forget_column()
                self._drive.forget_contact()
            self._stream.accept(chunk, now, self._reference.q if self._following else state.q)

    def hold(self) -> None:
        """Drop the stream, decelerate and hold; no chunk of its invocation is accepted any more. Idempotent."""
        with self.lock:
            self._stream.end()

    def end_stream(self, invocation_id: str) -> None:
        """As :meth:`hold`, but only if the stream belongs to ``invocation_id``; "" is any."""
        with self.lock:
            if invocation_id in ("", self._stream.status(self.clock.now()).invocation_id):
                self._stream.end()

    def note_refusal(self, refusal: Rejected) -> None:
        """Show in the stream's status why a chunk did not even become one."""
        with self.lock:
            self._stream.refuse(refusal.reason, str(refusal))

    def wait_standstill(self, timeout_s: float) -> bool:
        """True once the arm is measured to stand still; False after ``timeout_s``."""
        deadline = self.clock.now() + timeout_s
        while True:
            with self.lock:
                now = self.clock.now()
                if self._watch.loop_is_dead(now) and self._watch.maintenance is None:
                    self._measure(now)
                if self._watch.standstill(now):
                    return True
            if now >= deadline:
                return False
            self.clock.sleep(self.config.period_s)

    def run(
        self,
        primitive: Primitive,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[PrimitiveFeedback], None] | None = None,
    ) -> PrimitiveResult:
        """Run a primitive to its end; see the port. A newer call preempts the one before, and the stream."""
        return self._runner.run(primitive, cancel or CancelToken(), on_feedback)

    # -- Arm: stop and recovery -----------------------------------------------------------------------------------
    def stop(self, reason: str) -> bool:
        """Latch a stop, end goal and stream, brake; True when standstill was measured in time."""
        with self.lock:
            self._watch.latch = reason or "no reason given"
            self._void(
                "stopped", f"a stop was requested ({self._watch.latch}): a person clears it with /arm/clear_stop"
            )
            self.gripper.stop()
            self._watch.forget_standstill()
        half = self.config.stop_timeout_s / 2
        if not self._watch.loop_is_dead(self.clock.now()) and self.wait_standstill(half):
            return True
        self.halt_servo()  # the reference did not bring it to rest: the robot's own stop
        return self.wait_standstill(half)

    def halt_servo(self) -> None:
        """End following by the robot's own stop, whatever the control loop does."""
        with self.lock:
            self._drop_servo(always=True)

    def clear_stop(self) -> None:
        """Clear the latch. Raises Rejected when the arm does not stand still or the user stop is pressed."""
        with self.lock:
            state = self._watch.state
            if state is not None and state.user_stopped:
                raise Rejected("user_stop", "the user stop button is pressed: release it first")
            if self._watch.maintenance is None and not self._watch.standstill(self.clock.now()):
                raise Rejected("moving", "the arm is not measured to stand still: wait, then clear the stop again")
            self._watch.latch = None

    def recover(self, allow_collision: bool = False) -> tuple[str, ...]:
        """Clear the robot's errors; returns their names.

        Raises:
            ArmFault: the user stop is pressed, there is no connection, an error is not allowed or did not clear.
        """
        with self.lock:
            errors = self._watch.begin_recovery(allow_collision)
            if errors:
                self._drop_servo()
        if errors:
            self._watch.recover()
        return errors

    def close(self) -> None:
        """End every goal with a result, stop, release robot and gripper."""
        with self.lock:
            self._void("shutdown", "the arm's driver is shutting down")
            self._closed = True
            if self._watch.maintenance is None:
                self.halt_servo()
        self._servo.close()
        self.gripper.close()

    # -- for primitives -------------------------------------------------------------------------------------------
    def claim(self, goal: Goal) -> None:
        """Make ``goal`` the arm's: an older goal is preempted, the stream dropped. Raises Rejected when not ready."""
        with self.lock:
            why = self.refusal()
            if why is not None:
                raise Rejected(*why)
            self._void("preempted", f"{goal.name} took over", Outcome.PREEMPTED)
            self._goal = goal

    def release(self, goal: Goal) -> None:
        """Give the arm back; nothing happens when a newer goal owns it."""
        with self.lock:
            if self._goal is goal:
                self._goal = None

    def commanded(self) -> tuple[Vector, bool]:
        """Configuration (7,) rad to plan from, and whether the reference rests there with the servo following."""
        with self.lock:
            assert self._watch.state is not None
            if not self._following:
                return np.array(self._watch.state.q), False
            return np.array(self._reference.q), self._reference.at_rest

    def prepare(self) -> None:
        """A new trajectory begins: forget the correction and the contact of the last one."""
        self._drive.prepare()
