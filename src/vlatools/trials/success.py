"""What "success" of a task means, as data: named stages of measurable conditions (section ``success:`` of config/tasks/*.yaml)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from vlatools.core import ConfigError


class ConditionKind(str, Enum):
    """What a condition is about. Names of objects are those of the scene at the start of the trial."""

    IN_BOWL = "in_bowl"  # object lies in target
    ON_TOP = "on_top"  # object stands on target
    AT_START = "at_start"  # object stands where target stood at the start (target "": where it stood itself)
    AT_POINT = "at_point"  # object stands at point


@dataclass(frozen=True)
class Condition:
    """One measurable condition.

    Attributes:
        kind: see :class:`ConditionKind`.
        object: name of the object that it is about, e.g. ``red cube``.
        target: bowl, support, or the object whose first place is meant; "" where none is needed.
        point: x, y in metres (fr3_link0), for ``at_point`` only.
        tolerance_m: allowed horizontal distance for ``at_start`` and ``at_point``.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    kind: ConditionKind
    object: str
    target: str = ""
    point: tuple[float, float] | None = None
    tolerance_m: float = 0.035

    def __post_init__(self) -> None:
        where = f"success condition {self.kind.value} of '{self.object}'"
        if not self.object.strip():
            raise ConfigError(f"a success condition {self.kind.value} has an empty object: name it, e.g. 'red cube'")
        if self.kind in (ConditionKind.IN_BOWL, ConditionKind.ON_TOP) and not self.target.strip():
            raise ConfigError(f"{where}: target is empty: name the bowl or support, e.g. 'left bowl'")
        if (self.kind is ConditionKind.AT_POINT) != (self.point is not None):
            raise ConfigError(f"{where}: point is {self.point}: give [x, y] in metres for at_point, and only there")
        if self.point is not None and not all(math.isfinite(value) and abs(value) <= 2.0 for value in self.point):
            raise ConfigError(f"{where}: point {self.point} must be two numbers within 2 m of the robot's base")
        if not (math.isfinite(self.tolerance_m) and 0.001 <= self.tolerance_m <= 0.2):
            raise ConfigError(f"{where}: tolerance_m is {self.tolerance_m}, it must be 0.001 to 0.2")

    def __str__(self) -> str:
        if self.kind is ConditionKind.IN_BOWL:
            return f"{self.object} in {self.target}"
        if self.kind is ConditionKind.ON_TOP:
            return f"{self.object} on {self.target}"
        if self.kind is ConditionKind.AT_START:
            return f"{self.object} where {self.target or 'it'} was"
        return f"{self.object} at {self.point}"


@dataclass(frozen=True)
class StageSpec:
    """Conditions that must hold together, at rest. The name shows in tables and reports."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    name: str
    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigError("a success stage has an empty name: give it one, e.g. 'stacked'")
        if not self.conditions:
            raise ConfigError(f"success stage '{self.name}' has no conditions: a stage without any would always hold")


@dataclass(frozen=True)
class SuccessSpec:
    """Stages in the order in which they must be reached. The last one must hold at the end of the trial.

    Attributes:
        stages: one for a task that is judged by its final state alone, more where history matters.
        hold_s: time for which a stage's conditions must hold at rest, without a break.
        rest_speed: speed below which an object is at rest, m/s.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    stages: tuple[StageSpec, ...] = field(default_factory=tuple)
    hold_s: float = 1.0
    rest_speed: float = 0.01

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("success.stages is empty: a task needs at least one stage to be judged by")
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ConfigError(f"success.stages has names twice: {names}: make them different")
        if not (math.isfinite(self.hold_s) and 0.1 <= self.hold_s <= 30):
            raise ConfigError(f"success.hold_s is {self.hold_s}, it must be 0.1 to 30 seconds")
        if not (math.isfinite(self.rest_speed) and 0 < self.rest_speed <= 0.1):
            raise ConfigError(f"success.rest_speed is {self.rest_speed}, it must be above 0 and at most 0.1 m/s")

    @property
    def objects(self) -> tuple[str, ...]:
        """Every object that a condition names, sorted."""
        found = {name for stage in self.stages for c in stage.conditions for name in (c.object, c.target) if name}
        return tuple(sorted(found))
