"""The tool families in the simulated lab: real perception, real contacts, the true state as the judge."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from vlatools.core import Family, Invocation, InvocationResult, Outcome, Pose
from vlatools.sim.assembly import LockstepStack

CHAIN = ("reach", "grasp", "move", "release")


@pytest.fixture(scope="module")
def lab() -> Iterator[LockstepStack]:
    with LockstepStack("simple", 0) as stack:
        yield stack


def do(stack: LockstepStack, family: str, name: str, **arguments: object) -> InvocationResult:
    return stack.invoke(Invocation(Family(family), f"{family} the {name}", object=name, **arguments))  # type: ignore[arg-type]


def carry(stack: LockstepStack, name: str, **place: object) -> list[InvocationResult]:
    results = [do(stack, family, name, **(place if family in ("move", "release") else {})) for family in CHAIN]
    assert [r.outcome for r in results] == [Outcome.COMPLETED] * 4, [f"{r.reason} {r.message}" for r in results]
    stack.clock.sleep(0.3)
    return results


def test_a_cube_goes_into_a_bowl_within_eight_seconds_without_a_clip(lab: LockstepStack) -> None:
    lab.reset(3)
    results = carry(lab, "red cube", target="left bowl")
    things = lab.lab.truth().objects
    offset = things["red cube"].pose.position - things["left bowl"].pose.position
    assert np.linalg.norm(offset[:2]) < 0.015
    assert sum(r.clips for r in results) == 0
    assert sum(r.duration_s for r in results) < 8.0


def test_a_cube_stands_on_a_cube_and_comes_off_again(lab: LockstepStack) -> None:
    lab.reset(4)
    first = lab.lab.truth().objects["red cube"].pose.position.copy()
    carry(lab, "red cube", target="yellow cube")
    things = lab.lab.truth().objects
    offset = things["red cube"].pose.position - things["yellow cube"].pose.position
    assert np.linalg.norm(offset[:2]) < 0.008
    assert offset[2] == pytest.approx(0.04, abs=0.003)
    carry(lab, "red cube", position=np.array([*first[:2], 0.0]))
    assert np.linalg.norm(lab.lab.truth().objects["red cube"].pose.position - first) < 0.010


def test_a_bowl_is_carried_level_by_its_rim(lab: LockstepStack) -> None:
    lab.reset(5)
    place = np.array([0.50, 0.0, 0.0])
    do(lab, "reach", "left bowl")
    do(lab, "grasp", "left bowl")
    assert lab.lab.truth().objects["left bowl"].pose.rotation[2, 2] > math.cos(math.radians(6))
    assert do(lab, "move", "left bowl", position=place).outcome is Outcome.COMPLETED
    assert do(lab, "release", "left bowl", position=place).outcome is Outcome.COMPLETED
    assert np.linalg.norm(lab.lab.truth().objects["left bowl"].pose.position[:2] - place[:2]) < 0.010


def test_a_cube_taken_away_during_the_grasp_stagnates(lab: LockstepStack) -> None:
    lab.reset(6)
    do(lab, "reach", "red cube")
    aside = Pose(np.array([0.45, 0.20, 0.02]), np.array([0.0, 0.0, 0.0, 1.0]))
    lab.clock.at(0.1, lambda: lab.lab.teleport("red cube", aside))
    result = do(lab, "grasp", "red cube")
    assert result.outcome is Outcome.STAGNATED
    assert not result.gripper_holding


def test_a_cube_knocked_out_during_the_move_ends_it(lab: LockstepStack) -> None:
    lab.reset(7)
    do(lab, "reach", "red cube")
    do(lab, "grasp", "red cube")
    lab.clock.at(0.6, lambda: lab.lab.knock("red cube", np.array([0.0, 0.01, 0.0])))
    result = do(lab, "move", "red cube", target="left bowl")
    assert result.outcome is Outcome.STAGNATED
    assert result.standstill
    assert "lost" in result.message


def test_a_reflex_names_itself_and_the_arm_goes_on_after_recovery(lab: LockstepStack) -> None:
    lab.reset(8)
    lab.lab.inject("reflex", after_s=0.8)
    result = do(lab, "reach", "red cube")
    assert (result.outcome, result.reason) == (Outcome.FAULT, "reflex")
    assert do(lab, "reach", "red cube").reason == "not_ready"
    lab.arm.recover(allow_collision=True)
    assert do(lab, "reach", "red cube").outcome is Outcome.COMPLETED


def test_push_pull_and_rotate_move_the_cube_where_they_say(lab: LockstepStack) -> None:
    lab.reset(9)

    def at(name: str) -> np.ndarray:
        return lab.lab.truth().objects[name].pose.position[:2].copy()

    goal = at("red cube") + np.array([0.05, 0.02])
    assert do(lab, "push", "red cube", position=np.array([*goal, 0.0])).outcome is Outcome.COMPLETED
    assert np.linalg.norm(at("red cube") - goal) < 0.02
    assert do(lab, "pull", "yellow cube", position=np.array([0.37, -0.06, 0.0])).outcome is Outcome.COMPLETED
    assert np.linalg.norm(at("yellow cube") - [0.37, -0.06]) < 0.01
    yaw = lab.lab.truth().objects["yellow cube"].pose.yaw
    assert do(lab, "rotate", "yellow cube", angle=0.6).outcome is Outcome.COMPLETED
    turned = lab.lab.truth().objects["yellow cube"].pose.yaw - yaw
    assert math.remainder(turned - 0.6, 2 * math.pi) == pytest.approx(0.0, abs=0.1)
