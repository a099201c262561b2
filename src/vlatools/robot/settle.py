"""End of a motion: the reference is corrected by the measured error, so that friction and load leave no millimetres."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Outcome
from vlatools.robot.config import ArmConfig
from vlatools.robot.goal import End, Goal
from vlatools.robot.ports import RobotState
from vlatools.robot.reference import Reference

Vector = NDArray[np.float64]

_ARRIVED = 2e-3  # rad: the reference has reached its target
_NEAR, _COMING_IN = 4e-3, 0.06  # rad, rad/s: nearer and slower than this the correction begins
_SLOW = 0.03  # rad/s: measured, slow enough to judge the error
_RELAX = 0.85  # per period, how the correction fades while motion goes on: friction turns with the direction


class Settle:
    """A bounded integral of the measured joint error, and the verdict on a motion's end."""

    def __init__(self, config: ArmConfig) -> None:
        self._config = config.settle
        self._dt = config.period_s
        self.bias = np.zeros(7)

    def reset(self) -> None:
        """No correction."""
        self.bias = np.zeros(7)

    def relax(self) -> None:
        """Fade the correction: the target moves again."""
        self.bias = self.bias * _RELAX

    def correct(self, goal: Vector, state: RobotState, reference: Reference) -> None:
        """Add one period of the joint error, once the arm has come in: an error on the way is lag, no friction."""
        if float(np.abs(reference.q - goal - self.bias).max()) < _NEAR and float(np.abs(state.dq).max()) < _COMING_IN:
            bias = self.bias + self._config.gain * self._dt * (goal - state.q)
            self.bias = np.clip(bias, -self._config.bound, self._config.bound)

    def judge(self, goal: Goal, state: RobotState, reference: Reference) -> End | None:
        """How ``goal`` ended, once its trajectory is over; None while it is being corrected."""
        trajectory = goal.trajectory
        assert trajectory is not None
        arrived = float(np.abs(reference.q - trajectory.goal_q - self.bias).max()) < _ARRIVED
        late = goal.elapsed > trajectory.duration + self._config.timeout_s
        slow = float(np.abs(state.dq).max()) < _SLOW
        if not late and not (arrived and slow):
            return None
        errors = (
            ("position", state.ee.distance_to(trajectory.goal), goal.tolerance.position, self._config.position, "m"),
            (
                "orientation",
                state.ee.angle_to(trajectory.goal),
                goal.tolerance.orientation,
                self._config.rotation,
                "rad",
            ),
            (
                "joint",
                float(np.abs(state.q - trajectory.goal_q).max()),
                goal.tolerance.joint,
                self._config.joint,
                "rad",
            ),
        )
        judged = [(name, error, limit, fine, unit) for name, error, limit, fine, unit in errors if limit is not None]
        if not late and any(error > min(fine, limit) for _, error, limit, fine, _ in judged):
            return None
        for name, error, limit, _, unit in judged:
            if error > limit:
                message = (
                    f"{name} error {error:.4f} {unit} at the end, the tolerance is {limit:g} {unit}: "
                    "something may be in the way, or a limit stopped the arm"
                )
                return End(Outcome.TIMEOUT, "tolerance", message)
        return End(Outcome.COMPLETED, "", "the target was reached", reached=True)
