"""Settings of the executor, the stage checks and the monitor of each family. Loaded from ``config/tools.yaml``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vlatools.core import ConfigError, Family, MonitorConfig

_FORBID: dict[str, Any] = {"extra": "forbid"}


def _between(key: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"tools config: {key} is {value}, the limits are {low:g} to {high:g}: change it")


@dataclass(frozen=True)
class ExecutorConfig:
    """How an invocation is run.

    Attributes:
        period_s: time between two looks at cancel latch, arm state and policy reply.
        arm_state_max_age_s: an older arm state ends the invocation.
        frame_max_age_s: an older camera frame ends the invocation.
        policy_timeout_s: a policy that has not answered for so long, or gave no actions, ends the invocation.
        begin_timeout_s: the same for its first answer, which may load weights.
        standstill_timeout_s: longest wait for the arm to stand still at the end.
        settle_timeout_s: the same after a completed invocation, where the arm is slow already.
        check_grace_s: time that the stage check may take to become true after the monitor's verdict.
        feedback_hz: most feedback messages a second.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    period_s: float = 0.04
    arm_state_max_age_s: float = 0.3
    frame_max_age_s: float = 0.5
    policy_timeout_s: float = 2.0
    begin_timeout_s: float = 10.0
    standstill_timeout_s: float = 2.0
    settle_timeout_s: float = 0.6
    check_grace_s: float = 0.6
    feedback_hz: float = 15.0

    def __post_init__(self) -> None:
        _between("executor.period_s", self.period_s, 0.002, 0.05)
        _between("executor.arm_state_max_age_s", self.arm_state_max_age_s, 0.05, 2.0)
        _between("executor.frame_max_age_s", self.frame_max_age_s, 0.05, 5.0)
        _between("executor.policy_timeout_s", self.policy_timeout_s, 0.1, 60.0)
        _between("executor.begin_timeout_s", self.begin_timeout_s, 0.1, 300.0)
        _between("executor.standstill_timeout_s", self.standstill_timeout_s, 0.2, 10.0)
        _between("executor.settle_timeout_s", self.settle_timeout_s, 0.0, 5.0)
        _between("executor.check_grace_s", self.check_grace_s, 0.0, 5.0)
        _between("executor.feedback_hz", self.feedback_hz, 1.0, 20.0)


@dataclass(frozen=True)
class CheckConfig:
    """Limits of the stage checks that can veto a completion.

    Attributes:
        min_hold_width: a hold with a smaller opening is empty, m.
        open_margin: after a release the opening must have grown by at least this, m.
        goal_distance: largest distance of the tool from the goal that the policy named, m.
        hint_distance: largest horizontal distance of the tool from the invocation's position, m; it allows for a bowl
            that is held by its rim.
        width_change: a reach or move must not change the opening by more than this, m.
        object_distance: largest distance of a pushed or pulled object from its goal, m.
        angle_error: largest error of a rotation, rad.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    min_hold_width: float = 0.002
    open_margin: float = 0.01
    goal_distance: float = 0.015
    hint_distance: float = 0.13
    width_change: float = 0.012
    object_distance: float = 0.03
    angle_error: float = 0.2

    def __post_init__(self) -> None:
        _between("checks.min_hold_width", self.min_hold_width, 0.0005, 0.05)
        _between("checks.open_margin", self.open_margin, 0.002, 0.08)
        _between("checks.goal_distance", self.goal_distance, 0.001, 0.2)
        _between("checks.hint_distance", self.hint_distance, 0.01, 1.0)
        _between("checks.width_change", self.width_change, 0.002, 0.08)
        _between("checks.object_distance", self.object_distance, 0.002, 0.3)
        _between("checks.angle_error", self.angle_error, 0.01, 1.0)


@dataclass(frozen=True)
class ToolsConfig:
    """Everything in ``config/tools.yaml``. A family without an entry under ``monitor`` has the default thresholds."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    checks: CheckConfig = field(default_factory=CheckConfig)
    monitor: dict[Family, MonitorConfig] = field(default_factory=dict)

    def monitor_of(self, family: Family) -> MonitorConfig:
        """Thresholds of a family."""
        return self.monitor.get(family, MonitorConfig())
