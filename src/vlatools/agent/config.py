"""Configuration of the agent (config/planner.yaml)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from vlatools.agent.effects import EffectTolerances
from vlatools.agent.layout import TableConfig
from vlatools.core import ConfigError


@dataclass(frozen=True)
class AgentConfig:
    """What the agent knows of the table, how exactly things are placed, and how it recovers.

    Attributes:
        table: where objects may be put.
        tolerances: of the effect checks.
        ready_wait_s: longest wait for a busy or recovering arm, all waits of a task together.
        grip_settle_s: how long the gripper's report may lag behind the tool's result.
        retreat_m: way up before another look, and after a failure.
        open_width: opening from which a gripper counts as open, metres.
        standstill_wait_s: longest wait for standstill after a cancel.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    table: TableConfig = field(default_factory=TableConfig)
    tolerances: EffectTolerances = field(default_factory=EffectTolerances)
    ready_wait_s: float = 15.0
    grip_settle_s: float = 0.5
    retreat_m: float = 0.12
    open_width: float = 0.072
    standstill_wait_s: float = 2.0

    def __post_init__(self) -> None:
        for key, low, high in (
            ("ready_wait_s", 0.0, 120.0),
            ("grip_settle_s", 0.0, 5.0),
            ("retreat_m", 0.0, 0.4),
            ("open_width", 0.0, 0.08),
            ("standstill_wait_s", 0.0, 30.0),
        ):
            value = getattr(self, key)
            if not (math.isfinite(value) and low <= value <= high):
                raise ConfigError(f"{key} is {value}, it must be {low:g} to {high:g}: change it")
