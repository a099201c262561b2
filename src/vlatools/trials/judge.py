"""The judge: success of a task from the *measured* physical state, never from what a planner claims.

In simulation it is fed with the world's true poses, as plain data. On the lab's robot the same conditions are judged by perception, and
an operator has the last word; a :class:`Verdict` says which of them spoke, and keeps the claim beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ConfigError, Pose
from vlatools.trials.success import Condition, ConditionKind, StageSpec, SuccessSpec

BOWL_WALL_M = 0.004
MAX_BOWL_TILT = math.radians(25)
STACK_GAP_M = 0.008
STANDING_M = 0.010
# A longer gap between two samples says nothing about what happened in it, so a hold begins anew.
MAX_SAMPLE_GAP_S = 0.5


@dataclass(frozen=True)
class BodyTruth:
    """True state of one object.

    Attributes:
        pose: centre of the bounding box in fr3_link0.
        size: extents (3,) along its own axes, metres; for a bowl (diameter at the rim, the same, height).
        speed: speed of the centre, m/s.
        category: ``cube`` or ``bowl``.
    """

    pose: Pose
    size: NDArray[np.float64]
    speed: float
    category: str = "cube"

    @property
    def half_height(self) -> float:
        """Half of the vertical extent as it stands now, metres."""
        return float(np.abs(self.pose.rotation[2]) @ np.asarray(self.size, dtype=float)) / 2

    @property
    def bottom(self) -> float:
        """Height of the lowest point, metres."""
        return float(self.pose.position[2]) - self.half_height

    @property
    def top(self) -> float:
        """Height of the highest point, metres."""
        return float(self.pose.position[2]) + self.half_height


@dataclass(frozen=True)
class TruthSample:
    """True state of the scene at one instant.

    Attributes:
        stamp_s: seconds on any clock that only goes forward.
        bodies: by name.
        held: names of objects between the fingers; such an object is not where it belongs yet.
    """

    stamp_s: float
    bodies: Mapping[str, BodyTruth]
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ConditionCheck:
    """A judged condition: verdict, a sentence, and the numbers it was judged by (metres, m/s)."""

    condition: Condition
    holds: bool
    message: str
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StageVerdict:
    """Where one stage stands.

    Attributes:
        name: as in the task.
        reached_s: seconds from the start at which it had been held long enough; None if never.
        holds: whether its ``checks`` all hold.
        checks: an earlier stage's as of the moment at which it was reached, else as of the newest sample.
    """

    name: str
    reached_s: float | None
    holds: bool
    checks: tuple[ConditionCheck, ...]


class VerifiedBy(str, Enum):
    """Who says so. The order is that of authority, lowest first."""

    PERCEPTION = "perception"
    SIM_TRUTH = "sim_truth"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Verdict:
    """One judgement of a trial's final state.

    Attributes:
        verified_by: who judged.
        value: success; None: could not be judged.
        claimed: what the planner claimed, kept beside the judgement; None: it claimed nothing.
        message: one sentence for a person.
        stages: details, where the judge has them.
    """

    verified_by: VerifiedBy
    value: bool | None
    claimed: bool | None
    message: str
    stages: tuple[StageVerdict, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON-compatible form, as it stands in trial.json."""
        return {
            "verified_by": self.verified_by.value,
            "value": self.value,
            "claimed": self.claimed,
            "message": self.message,
            "stages": [
                {
                    "name": stage.name,
                    "reached_s": None if stage.reached_s is None else round(stage.reached_s, 3),
                    "holds": stage.holds,
                    "checks": [
                        {
                            "condition": str(check.condition),
                            "holds": check.holds,
                            "message": check.message,
                            "values": {key: round(value, 5) for key, value in check.values.items()},
                        }
                        for check in stage.checks
                    ],
                }
                for stage in self.stages
            ],
        }


def decide(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The verdict that counts: the operator's before the simulation's truth before perception's; None if none could judge."""
    order = list(VerifiedBy)
    judged = [verdict for verdict in verdicts if verdict.value is not None]
    return max(judged, key=lambda verdict: order.index(verdict.verified_by), default=None)


def operator_verdict(success: bool, claimed: bool | None, name: str, remark: str = "") -> Verdict:
    """A person's verdict on a trial of the real robot."""
    words = "success" if success else "failure"
    return Verdict(VerifiedBy.OPERATOR, success, claimed, f"{name} saw a {words}{': ' + remark if remark else ''}")


class StageTracker:
    """Follows a trial through the stages of its task. Feed it at about 10 Hz, and until ``hold_s`` after the trial's end.

    A stage is reached when all its conditions held at rest for ``hold_s`` without a break; only then the next one is looked at.
    Success is: every stage was reached in order, and the last one still holds with the newest sample.

    Raises:
        ConfigError: the task names an object that the scene does not have.
    """

    def __init__(self, spec: SuccessSpec, start: TruthSample) -> None:
        missing = [name for name in spec.objects if name not in start.bodies]
        if missing:
            raise ConfigError(
                f"the task is judged by {missing}, the scene has {sorted(start.bodies)}: use the scene that belongs to the task"
            )
        self._spec = spec
        self._start = start
        self._newest = start
        self._reached: list[tuple[float, tuple[ConditionCheck, ...]]] = []
        self._since: float | None = None

    def feed(self, sample: TruthSample) -> None:
        """Judge the next sample; one that does not advance in time is ignored."""
        gap = sample.stamp_s - self._newest.stamp_s
        if gap <= 0:
            return
        self._newest = sample
        if gap > MAX_SAMPLE_GAP_S:
            self._since = None
        stage = self._spec.stages[min(len(self._reached), len(self._spec.stages) - 1)]
        if not self._holds(stage):
            self._since = None
            return
        if self._since is None:
            self._since = sample.stamp_s
        done = len(self._reached) == len(self._spec.stages)
        if not done and self._held_long_enough():
            self._reached.append((sample.stamp_s, self._checks(stage)))
            if len(self._reached) < len(self._spec.stages):
                self._since = None

    @property
    def success(self) -> bool:
        """Whether the trial is a success as of the newest sample."""
        return len(self._reached) == len(self._spec.stages) and self._held_long_enough()

    def verdict(self, claimed: bool | None) -> Verdict:
        """The judgement as of the newest sample, beside what the planner claimed."""
        stages = tuple(self._stage(index) for index in range(len(self._spec.stages)))
        if self.success:
            message = "all conditions hold at rest: " + "; ".join(str(c) for c in self._spec.stages[-1].conditions)
        else:
            index = min(len(self._reached), len(stages) - 1)
            failed = [check.message for check in stages[index].checks if not check.holds]
            what = "; ".join(failed) or f"not held at rest for {self._spec.hold_s:g} s"
            message = f"stage '{stages[index].name}' ({index + 1} of {len(stages)}): {what}"
        return Verdict(VerifiedBy.SIM_TRUTH, self.success, claimed, message, stages)

    def _stage(self, index: int) -> StageVerdict:
        stage = self._spec.stages[index]
        reached = self._reached[index] if index < len(self._reached) else None
        past = reached is not None and index < len(self._spec.stages) - 1
        checks = reached[1] if reached is not None and past else self._checks(stage)
        stamp = reached[0] - self._start.stamp_s if reached is not None else None
        return StageVerdict(stage.name, stamp, all(c.holds for c in checks), checks)

    def _held_long_enough(self) -> bool:
        # Stamps are sums of float steps: half a millisecond of slack keeps ten samples of 0.1 s equal to one second.
        return self._since is not None and self._newest.stamp_s - self._since >= self._spec.hold_s - 5e-4

    def _holds(self, stage: StageSpec) -> bool:
        return all(check.holds for check in self._checks(stage))

    def _checks(self, stage: StageSpec) -> tuple[ConditionCheck, ...]:
        return tuple(check(c, self._newest, self._start, self._spec.rest_speed) for c in stage.conditions)


def check(condition: Condition, sample: TruthSample, start: TruthSample, rest_speed: float) -> ConditionCheck:
    """Judge one condition on one sample; an object that is gone, held or moving does not fulfil it."""
    item = sample.bodies.get(condition.object)
    if item is None:
        return ConditionCheck(condition, False, f"the {condition.object} is not in the scene")
    if condition.object in sample.held:
        return ConditionCheck(condition, False, f"the {condition.object} is still in the gripper")
    if item.speed > rest_speed:
        message = f"the {condition.object} moves at {item.speed * 1000:.0f} mm/s, the limit is {rest_speed * 1000:.0f} mm/s"
        return ConditionCheck(condition, False, message, {"speed": item.speed, "limit": rest_speed})
    if condition.kind in (ConditionKind.AT_START, ConditionKind.AT_POINT):
        return _at_place(condition, item, start)
    target = sample.bodies.get(condition.target)
    if target is None:
        return ConditionCheck(condition, False, f"the {condition.target} is not in the scene")
    return _in_bowl(condition, item, target) if condition.kind is ConditionKind.IN_BOWL else _on_top(condition, item, target)


def _in_bowl(condition: Condition, item: BodyTruth, bowl: BodyTruth) -> ConditionCheck:
    local = bowl.pose.inverse().matrix @ np.append(item.pose.position, 1.0)
    radius, limit = float(np.hypot(local[0], local[1])), float(bowl.size[0]) / 2 - BOWL_WALL_M
    height, rim = float(local[2]), float(bowl.size[2]) / 2
    tilt = math.acos(float(np.clip(bowl.pose.rotation[2, 2], -1.0, 1.0)))
    values = {"radius": radius, "limit": limit, "above_rim": height - rim, "bowl_tilt": tilt}
    if tilt > MAX_BOWL_TILT:
        message = f"the {condition.target} is tilted by {math.degrees(tilt):.0f} deg"
        return ConditionCheck(condition, False, message, values)
    # A cube that leans on the wall may have its centre a little above the rim; one that lies across the rim has more.
    if radius > limit or height > rim + item.half_height or item.top < bowl.bottom:
        message = (
            f"the {condition.object}'s centre is {radius * 1000:.0f} mm from the axis of the {condition.target} (limit "
            f"{limit * 1000:.0f} mm) and {(height - rim) * 1000:+.0f} mm from its rim"
        )
        return ConditionCheck(condition, False, message, values)
    return ConditionCheck(condition, True, f"the {condition.object} lies in the {condition.target}", values)


def _on_top(condition: Condition, item: BodyTruth, support: BodyTruth) -> ConditionCheck:
    offset = _flat(item.pose.position, support.pose.position)
    limit = float(min(support.size[:2])) / 2
    gap = item.bottom - support.top
    values = {"offset": offset, "limit": limit, "gap": gap}
    message = f"the {condition.object} is {offset * 1000:.0f} mm beside and {gap * 1000:+.0f} mm above the {condition.target}"
    return ConditionCheck(condition, offset <= limit and abs(gap) <= STACK_GAP_M, message, values)


def _at_place(condition: Condition, item: BodyTruth, start: TruthSample) -> ConditionCheck:
    if condition.point is not None:
        place, floor = np.array([*condition.point, 0.0]), 0.0
    else:
        first = start.bodies[condition.target or condition.object]
        place, floor = first.pose.position, first.bottom
    distance = _flat(item.pose.position, place)
    lifted = item.bottom - floor
    values = {"distance": distance, "limit": condition.tolerance_m, "lifted": lifted}
    message = (
        f"the {condition.object} is {distance * 1000:.0f} mm from its place (limit {condition.tolerance_m * 1000:.0f} mm), "
        f"its underside {lifted * 1000:+.0f} mm"
    )
    return ConditionCheck(condition, distance <= condition.tolerance_m and abs(lifted) <= STANDING_M, message, values)


def _flat(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(math.hypot(float(a[0] - b[0]), float(a[1] - b[1])))
