"""Plans: counts, grounding, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.agent.fake_world import CONDITIONED, LONG, SIMPLE, FakeWorld, thing
from vlatools.agent.config import AgentConfig
from vlatools.agent.effects import EffectKind
from vlatools.agent.library import PlanLibrary
from vlatools.agent.memory import Memory
from vlatools.agent.plan import Plan, Stage
from vlatools.agent.state import AgentState
from vlatools.core import Family, Rejected
from vlatools.perception.ports import DetectedObject

TASKS = Path(__file__).parents[2] / "config" / "tasks"


def stages(instruction: str, things: tuple[DetectedObject, ...]) -> tuple[Stage, ...]:
    world = FakeWorld.of(things)
    state = AgentState(instruction, Memory.begin(world.observe()), world.state(), "", Plan(0, ()))
    return PlanLibrary(AgentConfig(), world.clock).plan(state).stages


@pytest.mark.parametrize(
    ("task", "things", "count"), [("simple", SIMPLE, 8), ("conditioned", CONDITIONED, 12), ("long", LONG, 24)]
)
def test_the_paper_s_tasks_have_the_paper_s_number_of_invocations(
    task: str, things: tuple[DetectedObject, ...], count: int
) -> None:
    instruction = yaml.safe_load((TASKS / f"{task}.yaml").read_text())["instruction"]
    plan = Plan(1, stages(instruction, things))
    assert len(plan.steps) == count
    assert [step.family for step in plan.steps[:4]] == [Family.REACH, Family.GRASP, Family.MOVE, Family.RELEASE]


def test_instructions_and_effects_are_grounded_in_the_scene() -> None:
    first, second = stages("put the red cube into the left bowl, move the right bowl to where the red cube was", SIMPLE)
    assert [step.instruction for step in first.steps] == [
        "reach the red cube",
        "grasp the red cube",
        "move the red cube above the left bowl",
        "release the red cube into the left bowl",
    ]
    assert first.effect is not None
    assert first.effect.kind is EffectKind.IN_BOWL
    assert second.effect is not None
    assert second.effect.point == (0.44, 0.10, 0.0)
    assert second.steps[2].instruction == "move the right bowl to where the red cube was"


def test_unstacking_restores_the_first_place_or_takes_a_free_one() -> None:
    plan = stages("stack the red cube on the yellow cube, then unstack it", CONDITIONED)
    assert plan[1].effect is not None
    assert plan[1].effect.point == (0.5, 0.10, 0.0)
    stacked = (thing("red cube", 0.5, 0.0, 0.04), thing("yellow cube", 0.5, 0.0))
    (free,) = stages("take the red cube off the yellow cube", stacked)
    assert free.effect is not None
    assert free.effect.point is not None
    assert np.hypot(free.effect.point[0] - 0.5, free.effect.point[1]) >= 0.08


def test_restoring_moves_the_uppermost_first() -> None:
    plan = stages(
        "stack the red cube on the yellow cube, stack the blue cube on the red cube, restore the initial layout", LONG
    )
    assert [stage.object for stage in plan[2:]] == ["blue cube", "red cube"]


def test_all_cubes_go_from_left_to_right() -> None:
    plan = stages("put all cubes into the left bowl", LONG)
    assert [stage.object for stage in plan] == ["blue cube", "red cube", "yellow cube"]


@pytest.mark.parametrize(
    ("instruction", "things", "reason", "said"),
    [
        ("put the green cube into the left bowl", SIMPLE, "unknown_object", "red cube (0.44, 0.10)"),
        ("put the cube into the left bowl", SIMPLE, "ambiguous", "red cube, yellow cube"),
        ("put the red cube into the bowl", SIMPLE, "ambiguous", "left bowl, right bowl"),
        ("put the red cube into the left bowl", (SIMPLE[0], thing("bowl", 0.6, 0.1)), "ambiguous", "only one bowl"),
        ("stack the left yellow cube on the red cube", SIMPLE, "ambiguous", "does not stand left"),
        ("put the red cube into the yellow cube", SIMPLE, "impossible", "is no bowl"),
        ("put the left bowl into the right bowl", SIMPLE, "impossible", "does not fit"),
        ("stack the red cube on the red cube", SIMPLE, "impossible", "itself"),
        ("move the left bowl to where the red cube was", SIMPLE, "impossible", "the red cube stands there"),
        ("take the red cube off the yellow cube", SIMPLE, "impossible", "nothing to take off"),
        ("unstack the cubes", SIMPLE, "impossible", "nothing is stacked"),
        ("restore the initial layout", SIMPLE, "impossible", "nothing was moved"),
        ("pick up the red cube, then stack the yellow cube on the red cube", SIMPLE, "impossible", "still hold"),
        (
            "stack the red cube on the yellow cube, put the yellow cube into the left bowl",
            SIMPLE,
            "impossible",
            "the red cube is on the yellow cube",
        ),
        (
            "stack the red cube on the yellow cube, stack the blue cube on the yellow cube",
            LONG,
            "impossible",
            "the red cube stands there",
        ),
        ("put the middle bowl to where the red cube was", SIMPLE, "ambiguous", "in the middle"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_is_seen(
    instruction: str, things: tuple[DetectedObject, ...], reason: str, said: str
) -> None:
    with pytest.raises(Rejected) as caught:
        stages(instruction, things)
    assert caught.value.reason == reason
    assert said in str(caught.value)
