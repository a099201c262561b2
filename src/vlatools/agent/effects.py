"""Expected effects, judged by perception and by the arm's state: true, false, or not to be seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from vlatools.agent.memory import Memory, Tracked
from vlatools.core import ConfigError
from vlatools.robot.ports import ArmState


class EffectKind(str, Enum):
    """What shall be so afterwards."""

    GRIPPER_NEAR = "gripper_near"
    HELD = "held"
    NOT_HELD = "not_held"
    IN_BOWL = "in_bowl"
    ON_TOP = "on_top"
    AT_POSITION = "at_position"


class Truth(str, Enum):
    """Three values: what cannot be seen is neither true nor false."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Effect:
    """An expected effect.

    Attributes:
        kind: what.
        object: id of the object that it is about.
        target: id of the bowl or support, "" if none.
        point: (x, y, z) in fr3_link0 where the object's bottom shall rest, for ``at_position``.
    """

    kind: EffectKind
    object: str
    target: str = ""
    point: tuple[float, float, float] | None = None

    def __str__(self) -> str:
        words = {
            EffectKind.GRIPPER_NEAR: f"the gripper is at the {self.object}",
            EffectKind.HELD: f"the {self.object} is held",
            EffectKind.NOT_HELD: f"the {self.object} is not held",
            EffectKind.IN_BOWL: f"the {self.object} is in the {self.target}",
            EffectKind.ON_TOP: f"the {self.object} is on the {self.target}",
        }
        if self.kind is EffectKind.AT_POSITION and self.point is not None:
            return f"the {self.object} is at ({self.point[0]:.2f}, {self.point[1]:.2f})"
        return words[self.kind]


@dataclass(frozen=True)
class EffectCheck:
    """A judged effect: verdict, a sentence, and the numbers it was judged by (SI units)."""

    effect: Effect
    truth: Truth
    message: str
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EffectTolerances:
    """Allowances of the checks, metres.

    Attributes:
        near: horizontal distance between gripper and a cube; a bowl's radius is added.
        in_bowl: horizontal distance between the cube's and the bowl's centre.
        on_top: horizontal offset of a stacked cube, as a share of the support's size.
        on_top_height: difference between the upper one's underside and the lower one's top.
        at_position: horizontal distance to the place.
        standing_height: highest underside of something that stands on the table.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    near: float = 0.045
    in_bowl: float = 0.040
    on_top: float = 0.55
    on_top_height: float = 0.018
    at_position: float = 0.030
    standing_height: float = 0.020

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            high = 1.0 if key == "on_top" else 0.2
            if not (math.isfinite(value) and 0 < value <= high):
                raise ConfigError(f"{key} is {value}, it must be above 0 and at most {high:g}: change it")


def check(effect: Effect, memory: Memory, arm: ArmState, tolerances: EffectTolerances) -> EffectCheck:
    """Judge one effect. Never raises for an unseen object: that is UNKNOWN."""
    if effect.kind is EffectKind.HELD or effect.kind is EffectKind.NOT_HELD:
        return _grip(effect, arm)
    item = memory.get(effect.object)
    if item is None or not item.visible:
        return EffectCheck(effect, Truth.UNKNOWN, f"the {effect.object} is not in view")
    if effect.kind is EffectKind.GRIPPER_NEAR:
        # A bowl is taken by its rim, so the gripper stands up to a radius from its centre.
        limit = tolerances.near + (item.radius if item.category == "bowl" else 0.0)
        return _distance(effect, _flat(arm.ee.position, item.position), limit)
    if effect.kind is EffectKind.AT_POSITION:
        if effect.point is None:
            raise ValueError(f"{effect} has no point")
        return _at_position(effect, item, np.asarray(effect.point), tolerances)
    target = memory.get(effect.target)
    if target is None or not target.visible:
        return EffectCheck(effect, Truth.UNKNOWN, f"the {effect.target} is not in view")
    if effect.kind is EffectKind.IN_BOWL:
        return _in_bowl(effect, item, target, tolerances)
    return _on_top(effect, item, target, tolerances)


def is_on_top(upper: Tracked, lower: Tracked, tolerances: EffectTolerances) -> bool:
    """Whether ``upper`` stands on ``lower`` as both were last seen."""
    if upper.id == lower.id or lower.category == "bowl":
        return False
    offset = _flat(upper.position, lower.position)
    height = abs(upper.bottom - lower.top)
    return offset <= tolerances.on_top * float(min(lower.size[:2])) and height <= tolerances.on_top_height


def is_in_bowl(item: Tracked, bowl: Tracked, tolerances: EffectTolerances) -> bool:
    """Whether ``item`` lies in ``bowl`` as both were last seen."""
    if bowl.category != "bowl" or item.category == "bowl":
        return False
    return _flat(item.position, bowl.position) <= tolerances.in_bowl and item.bottom < bowl.top


def _grip(effect: Effect, arm: ArmState) -> EffectCheck:
    holding = arm.gripper_holding
    truth = Truth.TRUE if holding == (effect.kind is EffectKind.HELD) else Truth.FALSE
    words = "holds something" if holding else "holds nothing"
    message = f"the gripper {words} at an opening of {arm.gripper_width * 1000:.1f} mm"
    return EffectCheck(effect, truth, message, {"gripper_width": arm.gripper_width})


def _flat(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(np.hypot(a[0] - b[0], a[1] - b[1]))


def _distance(effect: Effect, distance: float, limit: float) -> EffectCheck:
    truth = Truth.TRUE if distance <= limit else Truth.FALSE
    message = f"{effect}: {distance * 1000:.0f} mm apart, the limit is {limit * 1000:.0f} mm"
    return EffectCheck(effect, truth, message, {"distance": distance, "limit": limit})


def _at_position(effect: Effect, item: Tracked, point: NDArray[np.float64], tol: EffectTolerances) -> EffectCheck:
    result = _distance(effect, _flat(item.position, point), tol.at_position)
    lifted = item.bottom - float(point[2])
    if result.truth is Truth.TRUE and lifted > tol.standing_height:
        message = f"the {effect.object} is {lifted * 1000:.0f} mm above the place: it does not stand there"
        return EffectCheck(effect, Truth.FALSE, message, {**result.values, "height": lifted})
    return result


def _in_bowl(effect: Effect, item: Tracked, bowl: Tracked, tol: EffectTolerances) -> EffectCheck:
    result = _distance(effect, _flat(item.position, bowl.position), tol.in_bowl)
    if result.truth is Truth.TRUE and item.bottom >= bowl.top:
        message = f"the {effect.object} is above the {effect.target}, not in it"
        return EffectCheck(effect, Truth.FALSE, message, {**result.values, "height": item.bottom - bowl.top})
    return result


def _on_top(effect: Effect, item: Tracked, support: Tracked, tol: EffectTolerances) -> EffectCheck:
    limit = tol.on_top * float(min(support.size[:2]))
    result = _distance(effect, _flat(item.position, support.position), limit)
    gap = item.bottom - support.top
    values = {**result.values, "gap": gap}
    if result.truth is Truth.TRUE and abs(gap) > tol.on_top_height:
        message = f"the {effect.object}'s underside is {gap * 1000:+.0f} mm from the top of the {effect.target}"
        return EffectCheck(effect, Truth.FALSE, message, values)
    return EffectCheck(effect, result.truth, result.message, values)
