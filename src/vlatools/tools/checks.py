"""Stage checks: whether an invocation that claims to be complete is so by measurement. They can only veto.

What can be measured is the arm: tool pose, opening, hold. What the policy measured itself with the camera (where the
object is now) is used where nothing else can tell, and stored beside in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vlatools.core import Family, Invocation
from vlatools.robot.ports import ArmState
from vlatools.tools.config import CheckConfig


@dataclass(frozen=True)
class StageCheck:
    """Verdict of a stage check.

    Attributes:
        veto: why the stage is not met, "" when it is.
        measurements: the numbers that it was judged by.
    """

    veto: str = ""
    measurements: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StageFacts:
    """What a check may use.

    Attributes:
        invocation: the invocation.
        start, end: measured arm states at its begin and now.
        claims: what the policy measured last, e.g. ``goal_x`` ... of the tool, ``object_error``.
        limits: limits of the checks.
    """

    invocation: Invocation
    start: ArmState
    end: ArmState
    claims: Mapping[str, float]
    limits: CheckConfig


def check_stage(facts: StageFacts) -> StageCheck:
    """Judge a claimed completion by measurement."""
    return _CHECKS[facts.invocation.family](facts)


def _reach(facts: StageFacts) -> StageCheck:
    return _first(_opening_kept(facts), _at_goal(facts))


def _grasp(facts: StageFacts) -> StageCheck:
    return _holding(facts, "nothing is held: reach again, the object may have moved")


def _move(facts: StageFacts) -> StageCheck:
    if not facts.start.gripper_holding:  # an empty gripper may be moved too
        return _reach(facts)
    return _first(_holding(facts, "the object was lost on the way: look again and grasp it"), _at_goal(facts))


def _release(facts: StageFacts) -> StageCheck:
    width, before = facts.end.gripper_width, facts.start.gripper_width
    numbers = {"gripper_width": width, "gripper_width_before": before}
    if facts.end.gripper_holding:
        return StageCheck(f"the gripper still holds something at {1e3 * width:.1f} mm opening", numbers)
    if facts.start.gripper_holding and not width >= before + facts.limits.open_margin:
        return StageCheck(
            f"the gripper opened from {1e3 * before:.1f} to {1e3 * width:.1f} mm only, "
            f"at least {1e3 * facts.limits.open_margin:.0f} mm more are needed",
            numbers,
        )
    return StageCheck("", numbers)


def _displace(facts: StageFacts) -> StageCheck:
    """Push and pull: contact is released, and the object, as last seen, is where it should be."""
    error = facts.claims.get("object_error", math.nan)
    numbers = {"object_error": error}
    if facts.end.gripper_holding:
        return StageCheck("the gripper still holds the object", numbers)
    if error > facts.limits.object_distance:
        return StageCheck(
            f"the object was seen {1e3 * error:.0f} mm from its goal, the limit is {1e3 * facts.limits.object_distance:.0f} mm",
            numbers,
        )
    return StageCheck("", numbers)


def _turn(facts: StageFacts) -> StageCheck:
    error = abs(facts.claims.get("angle_error", math.nan))
    numbers = {"angle_error": error}
    if error > facts.limits.angle_error:
        return StageCheck(f"the object is {error:.2f} rad from the wanted angle, the limit is {facts.limits.angle_error:.2f} rad", numbers)
    return StageCheck("", numbers)


def _none(facts: StageFacts) -> StageCheck:
    """Families for which the arm alone cannot tell; the agent checks the effect."""
    return StageCheck()


def _holding(facts: StageFacts, advice: str) -> StageCheck:
    end = facts.end
    numbers = {"gripper_width": end.gripper_width, "gripper_holding": float(end.gripper_holding)}
    if not end.gripper_holding or not end.gripper_width >= facts.limits.min_hold_width:
        return StageCheck(f"{advice} (opening {1e3 * end.gripper_width:.1f} mm, holding {end.gripper_holding})", numbers)
    return StageCheck("", numbers)


def _opening_kept(facts: StageFacts) -> StageCheck:
    change = abs(facts.end.gripper_width - facts.start.gripper_width)
    numbers = {"gripper_width_change": change}
    if change > facts.limits.width_change:
        return StageCheck(
            f"the opening changed by {1e3 * change:.1f} mm, the limit of this family is {1e3 * facts.limits.width_change:.0f} mm",
            numbers,
        )
    return StageCheck("", numbers)


def _at_goal(facts: StageFacts) -> StageCheck:
    """The measured tool is at the goal that the policy named and near the position that the agent gave."""
    numbers: dict[str, float] = {}
    goal = np.array([facts.claims.get(f"goal_{axis}", math.nan) for axis in "xyz"])
    if np.all(np.isfinite(goal)):
        numbers["goal_distance"] = distance = float(np.linalg.norm(facts.end.ee.position - goal))
        if distance > facts.limits.goal_distance:
            return StageCheck(
                f"the tool is {1e3 * distance:.1f} mm from its goal, the limit is {1e3 * facts.limits.goal_distance:.0f} mm",
                numbers,
            )
    elif facts.invocation.position is not None:
        offset = facts.end.ee.position[:2] - facts.invocation.position[:2]
        numbers["hint_distance"] = distance = float(np.linalg.norm(offset))
        if distance > facts.limits.hint_distance:
            return StageCheck(
                f"the tool is {1e3 * distance:.0f} mm beside the given position, the limit is {1e3 * facts.limits.hint_distance:.0f} mm",
                numbers,
            )
    return StageCheck("", numbers)


def _first(*checks: StageCheck) -> StageCheck:
    """The first veto, with the numbers of all."""
    numbers = {key: value for check in checks for key, value in check.measurements.items()}
    return StageCheck(next((check.veto for check in checks if check.veto), ""), numbers)


_CHECKS: dict[Family, Callable[[StageFacts], StageCheck]] = {
    Family.REACH: _reach,
    Family.GRASP: _grasp,
    Family.MOVE: _move,
    Family.RELEASE: _release,
    Family.PULL: _displace,
    Family.PUSH: _displace,
    Family.ROTATE: _turn,
    Family.FLIP: _none,
    Family.INSERT: _none,
    Family.PRESS: _none,
    Family.STRIKE: _none,
}
