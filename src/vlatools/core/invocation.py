"""The two typed messages between agent and tool: the invocation c = (g, z) and what comes back."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlatools.core.errors import Rejected
from vlatools.core.families import Family
from vlatools.core.outcome import Outcome
from vlatools.core.pose import Pose


@dataclass(frozen=True)
class MonitorOverrides:
    """Per-invocation replacements of the family's monitor thresholds; None keeps the default."""

    completion_threshold: float | None = None
    completion_hold_s: float | None = None
    stall_window_s: float | None = None
    stall_gain: float | None = None


@dataclass(frozen=True)
class Invocation:
    """One bounded call of a tool family.

    Attributes:
        family: tool-family label g.
        instruction: scene-grounded instruction z.
        object: name of the manipulated object ("" if the instruction says it all).
        target: name of the target object or place ("" if none).
        position: target point (3,) in metres, fr3_link0, or None.
        angle: radians for rotate and flip, or None.
        horizon_s: longest execution in seconds, or None for the family's default.
        overrides: monitor thresholds that replace the family's defaults.
        plan_generation: plan that this step belongs to, 0 if none.
        id: unique id.

    Raises:
        Rejected: an argument is not finite or out of range, or the instruction is empty.
    """

    family: Family
    instruction: str
    object: str = ""
    target: str = ""
    position: NDArray[np.float64] | None = None
    angle: float | None = None
    horizon_s: float | None = None
    overrides: MonitorOverrides = field(default_factory=MonitorOverrides)
    plan_generation: int = 0
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        if not self.instruction.strip():
            raise Rejected("bad_argument", "the instruction is empty: say what to do, e.g. 'grasp the red cube'")
        if self.position is not None:
            position = np.array(self.position, dtype=float)
            if position.shape != (3,) or not np.all(np.isfinite(position)):
                raise Rejected("bad_argument", f"position {self.position!r} must be three finite numbers in metres (fr3_link0)")
            position.setflags(write=False)
            object.__setattr__(self, "position", position)
        if self.angle is not None and not np.isfinite(self.angle):
            raise Rejected("bad_argument", f"angle {self.angle} must be finite radians")
        if self.horizon_s is not None and not (np.isfinite(self.horizon_s) and 0 < self.horizon_s <= 600):
            raise Rejected("bad_argument", f"horizon {self.horizon_s} s must be above 0 and at most 600")


@dataclass(frozen=True)
class InvocationResult:
    """What a tool returns: the outcome and the numbers it was judged by.

    Attributes:
        outcome: terminal outcome.
        reason: short machine-readable reason, "" if none.
        message: one sentence for a person: value, limit, fix.
        progress: smoothed progress at the end, 0 to 1.
        duration_s: seconds from acceptance to the end.
        chunks: chunks executed.
        clips: targets clipped by the arm's limits.
        end_pose: measured tool pose at the end, or None if unknown.
        gripper_width: measured full opening in metres, NaN if unknown.
        gripper_holding: an object is held.
        standstill: the arm was measured to stand still at the end.
        observation_age_s: largest age of an observation that a chunk was computed from.
        measurements: further numbers the outcome was judged by.
    """

    invocation: Invocation
    outcome: Outcome
    reason: str
    message: str
    progress: float
    duration_s: float
    chunks: int
    clips: int
    end_pose: Pose | None
    gripper_width: float
    gripper_holding: bool
    standstill: bool
    observation_age_s: float
    measurements: dict[str, Any] = field(default_factory=dict)
