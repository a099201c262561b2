"""What the executor knows about a running invocation, and how that becomes its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vlatools.core import CancelToken, Feedback, Invocation, InvocationResult, Outcome, ProgressMonitor
from vlatools.robot.ports import ArmState


class Ended(Exception):
    """The invocation has ended; carries how."""

    def __init__(self, outcome: Outcome, reason: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.reason = reason
        self.message = message


@dataclass
class Run:
    """What the executor knows about the running invocation."""

    invocation: Invocation
    cancel: CancelToken
    on_feedback: Callable[[Feedback], None] | None
    start_s: float
    start: ArmState | None = None
    monitor: ProgressMonitor | None = None
    chunks: int = 0
    accepted: bool = False  # the arm has shown our stream
    phase: str = "begin"
    observation_age_s: float = 0.0
    worst_age_s: float = 0.0
    useful_s: float = 0.0  # when the policy last gave actions
    feedback_s: float = -math.inf
    ended: bool = False
    claims: dict[str, float] = field(default_factory=dict)
    checked: dict[str, float] = field(default_factory=dict)

    def result(self, ended: Ended, state: ArmState | None, standstill: bool, now_s: float) -> InvocationResult:
        """The result, with the numbers that it was judged by.

        Args:
            ended: how it ended.
            state: measured arm state at the end, None if there is none.
            standstill: the arm was measured to stand still. If not, nothing but success and rejection is reported as it is:
                it is a fault, because the robot may still move.
            now_s: time of the end.
        """
        outcome, reason, message = ended.outcome, ended.reason, ended.message
        measurements: dict[str, Any] = {"claimed": self.claims, "checked": self.checked}
        if not standstill and outcome not in (Outcome.COMPLETED, Outcome.REJECTED):
            measurements["cause"] = f"{outcome.value}: {reason}"
            message = f"{message}; and the arm was not measured to stand still in time: look at the robot before going on"
            outcome, reason = Outcome.FAULT, "stop_unconfirmed"
        if self.monitor is not None:
            measurements["dropped_samples"] = self.monitor.dropped
        ours = state is not None and state.stream.invocation_id == self.invocation.id
        return InvocationResult(
            invocation=self.invocation,
            outcome=outcome,
            reason=reason,
            message=message,
            progress=self.monitor.smoothed if self.monitor is not None else 0.0,
            duration_s=now_s - self.start_s,
            chunks=self.chunks,
            clips=state.stream.clips if state is not None and ours else 0,
            end_pose=state.ee if state is not None else None,
            gripper_width=state.gripper_width if state is not None else math.nan,
            gripper_holding=state.gripper_holding if state is not None else False,
            standstill=standstill,
            observation_age_s=self.worst_age_s,
            measurements=measurements,
        )
