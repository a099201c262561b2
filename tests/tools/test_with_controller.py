"""Executor and analytic policy over the real ArmController: limits are kept without clips, cancels stop the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.policy.kinematic_world import MONITOR, Table, bowl, cube
from tests.robot.doubles import FakeGripper, FakeServo, TickClock
from tests.tools.doubles import CAMERA_TO_BASE, FakeCamera
from vlatools.core import CancelToken, Family, Feedback, Invocation, InvocationResult, Outcome
from vlatools.robot.config import ArmConfig
from vlatools.robot.controller import ArmController
from vlatools.tools import ToolExecutor, ToolsConfig


class Cell:
    """Controller on a manual clock; what is between the fingers is set by the test."""

    def __init__(self) -> None:
        self.clock = TickClock()
        self.servo = FakeServo(self.clock)
        self.gripper = FakeGripper(self.clock)
        self.arm = ArmController(self.servo, self.gripper, ArmConfig(), self.clock, background=lambda work: work())
        self.clock.every(self.arm.config.period_s, self.arm.tick)
        self.clock.sleep(0.3)
        things = {
            "red cube": cube(0.44, 0.10, 0.3),
            "yellow cube": cube(0.45, -0.10, -0.5),
            "left bowl": bowl(0.62, 0.12),
            "right bowl": bowl(0.62, -0.12),
        }
        self.table = Table(things)  # seen only
        tools = ToolsConfig(monitor=dict.fromkeys(Family, MONITOR))
        self.executor = ToolExecutor(self.table.policy, self.arm, FakeCamera(self.clock), CAMERA_TO_BASE, self.clock, tools)  # type: ignore[arg-type]

    def do(self, family: str, name: str, cancel: CancelToken | None = None, on_feedback=None, **arguments) -> InvocationResult:
        width = 0.004 if "bowl" in name else 0.04
        self.gripper.object_width = 0.0 if family == "reach" else width
        return self.executor.execute(Invocation(Family(family), f"{family} {name}", object=name, **arguments), cancel, on_feedback)


def test_pick_and_place_takes_seven_seconds_and_not_one_clip() -> None:
    cell = Cell()
    results = [
        cell.do("reach", "red cube"),
        cell.do("grasp", "red cube"),
        cell.do("move", "red cube", target="left bowl"),
        cell.do("release", "red cube", target="left bowl"),
    ]
    assert [r.outcome for r in results] == [Outcome.COMPLETED] * 4, [r.message for r in results]
    assert sum(r.clips for r in results) == 0
    assert sum(r.duration_s for r in results) <= 7.2
    assert all(r.standstill for r in results)


def test_a_bowl_by_its_rim_without_a_clip() -> None:
    cell = Cell()
    place = np.array([0.42, 0.15, 0.0])
    results = [
        cell.do("reach", "left bowl"),
        cell.do("grasp", "left bowl"),
        cell.do("move", "left bowl", position=place),
        cell.do("release", "left bowl"),
    ]
    assert [r.outcome for r in results] == [Outcome.COMPLETED] * 4, [r.message for r in results]
    assert sum(r.clips for r in results) == 0


def test_a_soft_arm_still_gets_there() -> None:
    cell = Cell()
    cell.servo.error = np.array([0.004, 0.006, -0.004, 0.006, 0.0, 0.004, 0.0])
    result = cell.do("reach", "red cube")
    assert result.outcome is Outcome.COMPLETED, result.message
    assert np.linalg.norm(cell.arm.state().ee.position - [0.44, 0.10, 0.02]) < 0.007


@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.7, 1.1, 1.6])
def test_a_cancel_at_any_moment_stops_the_reference(after_s: float) -> None:
    cell, token = Cell(), CancelToken()
    due = cell.clock.now() + after_s
    cell.clock.every(0.02, lambda: token.cancel() if cell.clock.now() >= due else None)
    result = cell.do("reach", "red cube", token)
    assert result.outcome is Outcome.CANCELED
    assert result.standstill
    before = len(cell.servo.sent)
    cell.clock.sleep(1.0)
    positions = np.array([q for _, q, _ in cell.servo.sent[before:]])
    assert len(positions) == 0 or np.ptp(positions, axis=0).max() < 1e-6


def test_progress_of_a_reach_rises_steadily() -> None:
    cell, seen = Cell(), []

    def note(feedback: Feedback) -> None:
        seen.append(feedback.sample.progress)

    cell.do("reach", "red cube", on_feedback=note)
    steps = np.diff([p for p in seen if np.isfinite(p)])
    assert steps.min() > -0.03
    assert steps.max() < 0.3
