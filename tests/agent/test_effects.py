"""Effects just inside and just outside their tolerances, and what is not seen."""

from __future__ import annotations

import numpy as np
import pytest

from tests.agent.fake_world import FakeWorld, thing
from vlatools.agent.effects import Effect, EffectKind, EffectTolerances, Truth, check
from vlatools.agent.memory import Memory
from vlatools.core import ConfigError
from vlatools.perception.ports import DetectedObject, Scene

TOL = EffectTolerances()


def judge(
    effect: Effect, *things: DetectedObject, held: str = "", ee: tuple[float, float, float] = (0.4, 0, 0.4)
) -> Truth:
    world = FakeWorld.of(things, held=held, ee=np.array(ee))
    return check(effect, Memory.begin(world.observe()), world.state(), TOL).truth


BOWL = thing("bowl", 0.6, 0.0)


@pytest.mark.parametrize(
    ("dx", "bottom", "truth"),
    [
        (0.0, 0.004, Truth.TRUE),
        (TOL.in_bowl - 0.001, 0.004, Truth.TRUE),
        (TOL.in_bowl + 0.001, 0.004, Truth.FALSE),
        (0.0, 0.05, Truth.FALSE),
    ],
)
def test_in_bowl(dx: float, bottom: float, truth: Truth) -> None:
    effect = Effect(EffectKind.IN_BOWL, "red cube", "bowl")
    assert judge(effect, thing("red cube", 0.6 + dx, 0.0, bottom), BOWL) is truth


@pytest.mark.parametrize(
    ("dx", "bottom", "truth"),
    [
        (0.0, 0.04, Truth.TRUE),
        (0.021, 0.04, Truth.TRUE),
        (0.023, 0.04, Truth.FALSE),
        (0.0, 0.04 + TOL.on_top_height + 0.001, Truth.FALSE),
        (0.0, 0.0, Truth.FALSE),
    ],
)
def test_on_top(dx: float, bottom: float, truth: Truth) -> None:
    effect = Effect(EffectKind.ON_TOP, "red cube", "yellow cube")
    assert judge(effect, thing("red cube", 0.5 + dx, 0.0, bottom), thing("yellow cube", 0.5, 0.0)) is truth


@pytest.mark.parametrize(
    ("dx", "bottom", "truth"),
    [(0.029, 0.0, Truth.TRUE), (0.031, 0.0, Truth.FALSE), (0.0, 0.04, Truth.FALSE)],
)
def test_at_position(dx: float, bottom: float, truth: Truth) -> None:
    effect = Effect(EffectKind.AT_POSITION, "red cube", point=(0.5, 0.1, 0.0))
    assert judge(effect, thing("red cube", 0.5 + dx, 0.1, bottom)) is truth


def test_gripper_near_allows_for_a_bowl_s_rim() -> None:
    near = Effect(EffectKind.GRIPPER_NEAR, "bowl")
    assert judge(near, BOWL, ee=(0.66, 0.0, 0.05)) is Truth.TRUE
    assert judge(near, BOWL, ee=(0.72, 0.0, 0.05)) is Truth.FALSE
    cube = Effect(EffectKind.GRIPPER_NEAR, "red cube")
    assert judge(cube, thing("red cube", 0.6, 0.0), ee=(0.66, 0.0, 0.05)) is Truth.FALSE


def test_the_grip_is_judged_by_the_arm_and_needs_no_sight() -> None:
    assert judge(Effect(EffectKind.HELD, "red cube"), held="") is Truth.FALSE
    assert judge(Effect(EffectKind.NOT_HELD, "red cube"), held="") is Truth.TRUE
    assert judge(Effect(EffectKind.HELD, "red cube"), thing("red cube", 0.5, 0), held="red cube") is Truth.TRUE


@pytest.mark.parametrize("kind", [EffectKind.IN_BOWL, EffectKind.ON_TOP, EffectKind.GRIPPER_NEAR])
def test_what_is_not_seen_is_unknown(kind: EffectKind) -> None:
    assert judge(Effect(kind, "red cube", "bowl"), BOWL) is Truth.UNKNOWN
    if kind is not EffectKind.GRIPPER_NEAR:
        assert judge(Effect(kind, "red cube", "bowl"), thing("red cube", 0.5, 0.0)) is Truth.UNKNOWN


def test_equal_objects_are_followed_when_they_change_sides() -> None:
    memory = Memory.begin(Scene(0.0, (thing("left bowl", 0.6, 0.12), thing("right bowl", 0.6, -0.12))))
    # The left bowl was carried to the far right: perception now calls it the right bowl.
    seen = Scene(1.0, (thing("left bowl", 0.6, -0.12), thing("right bowl", 0.45, -0.2)))
    memory = memory.update(seen, {"left bowl": np.array([0.45, -0.2, 0.02])})
    assert memory["left bowl"].position[1] == pytest.approx(-0.2)
    assert memory["right bowl"].position[1] == pytest.approx(-0.12)
    assert memory["left bowl"].start[1] == pytest.approx(0.12)
    assert (memory.name("left bowl"), memory.name("right bowl")) == ("right bowl", "left bowl")


def test_a_hidden_object_keeps_its_place_and_its_name() -> None:
    memory = Memory.begin(Scene(0.0, (thing("left bowl", 0.6, 0.12), thing("right bowl", 0.6, -0.12))))
    memory = memory.update(Scene(1.0, (thing("bowl", 0.61, -0.12),)))
    assert not memory["left bowl"].visible
    assert memory["right bowl"].visible
    assert memory["left bowl"].position[1] == pytest.approx(0.12)
    assert memory.name("right bowl") == "right bowl"


def test_tolerances_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="near is 0"):
        EffectTolerances(near=0.0)
