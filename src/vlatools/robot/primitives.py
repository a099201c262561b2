"""Runs primitives: argument checks, planning, waiting, and exactly one measured result each."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from vlatools.core import CancelToken, Outcome, Rejected
from vlatools.robot.fr3 import MAX_OPENING
from vlatools.robot.goal import End, Goal
from vlatools.robot.motion import MotionPlanner, Trajectory
from vlatools.robot.ports import (
    FollowWaypoints,
    Grasp,
    Home,
    MoveJoints,
    MovePose,
    MoveTo,
    Primitive,
    PrimitiveFeedback,
    PrimitiveResult,
    Release,
    Retreat,
    RotatePitch,
    RotateWrist,
    SetGripper,
)
from vlatools.robot.targets import Target, target_of

if TYPE_CHECKING:
    from vlatools.robot.controller import ArmController

_FEEDBACK_S = 0.1
_SLACK, _SLACK_S = 3.0, 5.0  # backstop: a motion may take so many times as long as planned, and so many seconds more
_MEASURE_S = 0.6  # after a gripper command, wait this long for a fresh measurement
_WIDTH_SETTLE_S = 0.3  # the fingers creep into contact for this long
_RELEASE_ATTEMPTS = 2

Watch = Callable[[], None]  # one control period; raises _Ended


class _Ended(Exception):
    """The goal ended while something waited for it."""


class PrimitiveRunner:
    """Runs one primitive per call of :meth:`run`, in the caller's thread; the control loop does the moving."""

    def __init__(self, arm: ArmController) -> None:
        self._arm = arm
        self._planner = MotionPlanner(arm.config)
        self._planning = threading.Lock()

    def run(
        self, primitive: Primitive, token: CancelToken, on_feedback: Callable[[PrimitiveFeedback], None] | None
    ) -> PrimitiveResult:
        """Run ``primitive``; every path ends in a result."""
        arm, begin = self._arm, self._arm.clock.now()
        goal = Goal(type(primitive).__name__, token)
        try:
            self._check(primitive)
            if isinstance(primitive, SetGripper | Grasp | Release):
                goal.needs_arm = False
                arm.claim(goal)
                self._run_gripper(primitive, goal, on_feedback, begin)
            else:
                self._run_motion(primitive, goal, on_feedback, begin)
        except Rejected as refusal:
            goal.finish(End(Outcome.REJECTED, refusal.reason, str(refusal)))
        except _Ended:
            pass
        except Exception as error:  # a bug must not leave the goal without a terminal state
            goal.finish(End(Outcome.FAULT, "internal_error", f"{type(error).__name__}: {error}"))
            raise
        finally:
            arm.release(goal)
        return self._result(goal, begin)

    # -- arm ------------------------------------------------------------------------------------------------------
    def _run_motion(
        self, primitive: Primitive, goal: Goal, on_feedback: Callable[[PrimitiveFeedback], None] | None, begin: float
    ) -> None:
        arm = self._arm
        self._ready()
        # Plan before taking over, so that a goal that cannot be reached disturbs nothing.
        start, rests = arm.commanded()
        target, trajectory = self._plan(primitive, start)
        goal.clips, goal.target = target.clips, target
        arm.claim(goal)
        deadline = arm.clock.now() + arm.config.stop_timeout_s
        while not (rests and np.array_equal(start, arm.commanded()[0])):
            self._period(goal)
            start, rests = arm.commanded()
            if rests:
                target, trajectory = self._plan(primitive, start)
                goal.target = target
            elif arm.clock.now() > deadline:
                goal.finish(End(Outcome.FAULT, "no_standstill", "the arm did not come to rest before the motion began"))
        with arm.lock:
            arm.prepare()
            goal.begin(trajectory, target.tolerance)
        asked = primitive.timeout_s
        limit = _SLACK * trajectory.duration + arm.config.settle.timeout_s + _SLACK_S if asked is None else asked
        first = self._errors(target)
        told = begin
        while goal.end is None:
            self._period(goal)
            now = arm.clock.now()
            if goal.end is None and now - begin > limit:
                goal.finish(
                    End(Outcome.TIMEOUT, "timeout", f"not reached within {limit:.1f} s: give more time or speed")
                )
            if on_feedback is not None and now - told >= _FEEDBACK_S:
                told = now
                on_feedback(self._feedback(target, first, goal, trajectory, now - begin))

    def _plan(self, primitive: Primitive, start: np.ndarray) -> tuple[Target, Trajectory]:
        with self._planning:
            target = target_of(primitive, self._planner.model.pose(start), self._arm.config)
            scale = primitive.speed_scale  # type: ignore[union-attr]
            if target.q is not None:
                return target, self._planner.joints(start, target.q, scale)
            return target, self._planner.through(start, list(target.poses), scale)

    def _ready(self) -> None:
        why = self._arm.refusal()
        if why is not None:
            raise Rejected(*why)

    # -- gripper --------------------------------------------------------------------------------------------------
    def _run_gripper(
        self,
        primitive: SetGripper | Grasp | Release,
        goal: Goal,
        on_feedback: Callable[[PrimitiveFeedback], None] | None,
        begin: float,
    ) -> None:
        told = begin

        def watch() -> None:
            nonlocal told
            self._period(goal)
            now = self._arm.clock.now()
            if on_feedback is not None and now - told >= _FEEDBACK_S:
                told = now
                on_feedback(PrimitiveFeedback(0.0, math.nan, math.nan, self._arm.gripper.width, now - begin))
            if now - begin > primitive.timeout_s:
                self._arm.gripper.stop()
                message = (
                    f"the gripper did not answer within {primitive.timeout_s:.1f} s: check its connection, home it"
                )
                goal.finish(End(Outcome.FAULT, "gripper_timeout", message))
                raise _Ended

        if isinstance(primitive, Grasp):
            goal.finish(self._grasp(primitive, watch))
        elif isinstance(primitive, SetGripper):
            goal.finish(self._open_to(primitive.width, primitive.speed, watch, attempts=1))
        else:
            goal.finish(self._open_to(primitive.width, None, watch, _RELEASE_ATTEMPTS))

    def _grasp(self, primitive: Grasp, watch: Watch) -> End:
        gripper = self._arm.gripper
        if gripper.holds(primitive.min_width):
            return End(
                Outcome.COMPLETED, "already_holding", f"held at {1000 * gripper.width:.1f} mm already", reached=True
            )
        error = self._command(gripper.grasp(primitive.force, primitive.speed), watch)
        if error is not None:
            return error
        settled = self._arm.clock.now() + _WIDTH_SETTLE_S
        while not gripper.holds(primitive.min_width) and self._arm.clock.now() < settled:
            watch()
        width = 1000 * gripper.width
        if gripper.holds(primitive.min_width):
            return End(Outcome.COMPLETED, "", f"held at {width:.1f} mm", reached=True)
        return End(
            Outcome.TIMEOUT,
            "empty_grasp",
            f"nothing is held: the fingers closed to {width:.1f} mm, the least is {1000 * primitive.min_width:.1f} mm",
        )

    def _open_to(self, width: float, speed: float | None, watch: Watch, attempts: int) -> End:
        gripper, tolerance = self._arm.gripper, self._arm.config.gripper.width_tolerance
        error: End | None = None
        for _ in range(attempts):
            error = self._command(gripper.move(width, speed), watch)
            # At full opening the fingers may stop short of the nominal width; anything wider than asked is open, too.
            off = abs(gripper.width - width) if attempts == 1 else width - gripper.width
            if error is None and off <= tolerance:
                return End(Outcome.COMPLETED, "", f"opening {1000 * gripper.width:.1f} mm", reached=True)
        if error is not None:
            return error
        return End(
            Outcome.TIMEOUT,
            "tolerance",
            f"the fingers stopped at {1000 * gripper.width:.1f} mm, asked for {1000 * width:.1f} mm "
            f"within {1000 * tolerance:.1f} mm: something may be between or beside them",
        )

    def _command(self, command: int, watch: Watch) -> End | None:
        """Wait for a gripper command and a measurement after it; its failure, None if it ended well."""
        gripper, clock = self._arm.gripper, self._arm.clock
        while gripper.status().busy and gripper.status().command_id == command:
            watch()
        ended = clock.now()
        status = gripper.status()
        if status.command_id != command:
            return End(Outcome.PREEMPTED, "preempted", "another gripper command took over")
        if status.error:
            return End(Outcome.FAULT, status.error.split(":")[0], status.error)
        while (state := gripper.status().state) is None or state.stamp_s < ended:
            watch()
            if clock.now() - ended > _MEASURE_S:
                return End(
                    Outcome.FAULT, "gripper_timeout", "the gripper's width could not be measured: check its connection"
                )
        return None

    # -- waiting --------------------------------------------------------------------------------------------------
    def _period(self, goal: Goal) -> None:
        """One control period; ends the goal when it was canceled. Raises _Ended when the goal is over."""
        if goal.token.canceled:
            self._cancel(goal)
        if goal.end is not None:
            raise _Ended
        self._arm.clock.sleep(self._arm.config.period_s)

    def _cancel(self, goal: Goal) -> None:
        arm = self._arm
        if goal.token.reason == CancelToken.PREEMPT:
            goal.finish(End(Outcome.PREEMPTED, "preempted", "a newer goal took over"))
            return
        if not goal.needs_arm:
            arm.gripper.stop()
        limit = arm.config.stop_timeout_s
        stopped = arm.wait_standstill(limit / 2)
        if not stopped and goal.end is None:
            arm.halt_servo()
            stopped = arm.wait_standstill(limit / 2)
        if stopped:
            goal.finish(End(Outcome.CANCELED, "canceled", "canceled; the arm stands still"))
        else:
            message = f"canceled, but the arm was not measured to stand still within {limit:.1f} s: look at the arm"
            goal.finish(End(Outcome.FAULT, "stop_unconfirmed", message))

    # -- results --------------------------------------------------------------------------------------------------
    def _errors(self, target: Target | None) -> tuple[float, float, float]:
        """Measured (position m, orientation rad, joint rad) distance to ``target``; NaN where it has none."""
        report = self._arm.report()
        if report is None or target is None:
            return math.nan, math.nan, math.nan
        if target.q is not None:
            goal = target.goal(self._planner.model)
            joint = float(np.abs(report.q - target.q).max())
            return report.ee.distance_to(goal), report.ee.angle_to(goal), joint
        goal = target.poses[-1]
        return report.ee.distance_to(goal), report.ee.angle_to(goal), math.nan

    def _feedback(
        self, target: Target, first: tuple[float, float, float], goal: Goal, trajectory: Trajectory, elapsed: float
    ) -> PrimitiveFeedback:
        errors = self._errors(target)
        if len(target.poses) > 1:
            progress = goal.elapsed / max(trajectory.duration, 1e-6)
        else:
            left = [
                now / then for now, then, least in zip(errors, first, (2e-3, 1e-2, 5e-3), strict=True) if then > least
            ]
            progress = 1.0 - max(left, default=0.0)
        return PrimitiveFeedback(min(1.0, max(0.0, progress)), errors[0], errors[1], self._arm.gripper.width, elapsed)

    def _result(self, goal: Goal, begin: float) -> PrimitiveResult:
        end, report = goal.end, self._arm.report()
        assert end is not None
        position, orientation, _ = self._errors(goal.target)
        return PrimitiveResult(
            outcome=end.outcome,
            reason=end.reason,
            message=end.message,
            reached=end.reached,
            final_pose=report.ee if report is not None else None,
            final_q=report.q if report is not None else None,
            position_error=position,
            orientation_error=orientation,
            gripper_width=self._arm.gripper.width,
            duration_s=self._arm.clock.now() - begin,
            clips=goal.clips,
        )

    # -- arguments ------------------------------------------------------------------------------------------------
    def _check(self, primitive: Primitive) -> None:
        """Refuse arguments that make no sense, before anything else."""
        timeout = primitive.timeout_s
        if timeout is not None:
            _need(timeout, 0.0, 600.0, "timeout_s", "s", exclusive=True)
        match primitive:
            case SetGripper(width=width, speed=speed):
                _need(width, 0.0, MAX_OPENING, "width", "m", hint="it is the full opening, in metres")
                if speed is not None:
                    _need(speed, 0.0, 0.2, "speed", "m/s", exclusive=True)
            case Grasp(force=force, speed=speed, min_width=least):
                _need(least, 0.0, MAX_OPENING, "min_width", "m")
                if force is not None:
                    _need(force, 0.0, 70.0, "force", "N", exclusive=True)
                if speed is not None:
                    _need(speed, 0.0, 0.2, "speed", "m/s", exclusive=True)
            case Release(width=width):
                _need(width, 0.0, MAX_OPENING, "width", "m", hint="it is the full opening, in metres")
            case (
                MoveTo()
                | MovePose()
                | MoveJoints()
                | FollowWaypoints()
                | RotateWrist()
                | RotatePitch()
                | Home()
                | Retreat()
            ):
                _need(primitive.speed_scale, 0.0, 1.0, "speed_scale", "", exclusive=True)
                tolerance = getattr(primitive, "tolerance", None)
                if tolerance is not None:
                    _need(tolerance, 0.0, 1.0, "tolerance", "m or rad", exclusive=True)


def _need(value: float, low: float, high: float, name: str, unit: str, hint: str = "", exclusive: bool = False) -> None:
    if not (math.isfinite(value) and low <= value <= high) or (exclusive and value == low):
        words = (
            f"{name} is {value} {unit}, it must be {'above ' if exclusive else ''}{low:g} to {high:g} {unit}".rstrip()
        )
        raise Rejected("bad_argument", words + (f": {hint}" if hint else ""))
