"""How much a task may cost: time, attempts, replans, invocations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vlatools.core import ConfigError


@dataclass(frozen=True)
class TaskBudget:
    """Limits of one task. Crossing one ends the task with the reason; none is cleared by re-issuing a step.

    Attributes:
        time_limit_s: seconds from the start of the task to its end.
        attempts_per_step: failures of one step (family, object, target) after which it is no longer offered.
        max_replans: times that the planner may be asked again.
        max_invocations: tool invocations, including repeated ones.
        no_progress_s: seconds spent in invocations that failed since the last goal was reached.

    Raises:
        ConfigError: a limit is out of range.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    time_limit_s: float = 120.0
    attempts_per_step: int = 3
    max_replans: int = 10
    max_invocations: int = 80
    no_progress_s: float = 40.0

    def __post_init__(self) -> None:
        for key, low, high in (
            ("time_limit_s", 1.0, 3600.0),
            ("attempts_per_step", 1, 20),
            ("max_replans", 0, 100),
            ("max_invocations", 1, 1000),
            ("no_progress_s", 1.0, 3600.0),
        ):
            value = getattr(self, key)
            if not (math.isfinite(value) and low <= value <= high):
                raise ConfigError(f"{key} is {value}, it must be {low:g} to {high:g}: change it in the task's file")
