"""A plan: goals as stages, each a few invocations with their expected effects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from vlatools.agent.effects import Effect
from vlatools.core import Family


class PlaceKind(str, Enum):
    """Where something shall rest."""

    IN = "in"
    ON = "on"
    AT = "at"


@dataclass(frozen=True)
class Place:
    """A resting place, grounded at the moment a step is issued.

    Attributes:
        kind: in a bowl, on an object, or at a point.
        target: id of the bowl or support, "" for a point.
        point: (x, y, z) in fr3_link0 on which the object's bottom shall rest, for a point.
        words: the place in words, e.g. ``where the blue cube was``.
    """

    kind: PlaceKind
    target: str = ""
    point: tuple[float, float, float] | None = None
    words: str = field(default="", compare=False)


@dataclass(frozen=True)
class Step:
    """One invocation c = (g, z) before it is grounded; objects are named by their ids in memory.

    Attributes:
        family: tool family g.
        instruction: instruction z; ids in it are replaced by current names when it is issued.
        object: id of the manipulated object, "" if none.
        target: id of the target object, "" if none.
        place: where the object shall rest, or None.
        effect: what shall be so afterwards, or None if nothing is expected.
    """

    family: Family
    instruction: str
    object: str = ""
    target: str = ""
    place: Place | None = None
    effect: Effect | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What counts as the same step when failures are counted: not its wording, not its plan."""
        return (self.family.value, self.object, self.target)


@dataclass(frozen=True)
class Stage:
    """One goal: steps that end with an effect that perception can confirm.

    Attributes:
        text: the goal in words.
        object: id of the object that it moves.
        steps: invocations that are left to do.
        effect: the goal's effect, or None when only the steps' own are known.
        place: where the object shall rest, or None.
        index: goal number in the instruction; helper stages (clearing a place) share that of the goal they serve.
        lasting: the effect belongs to the instruction; a helper stage's does not.
    """

    text: str
    object: str
    steps: tuple[Step, ...]
    effect: Effect | None
    place: Place | None = None
    index: int = 0
    lasting: bool = True


@dataclass(frozen=True)
class Plan:
    """Remaining stages; the first step of the first stage is next."""

    generation: int
    stages: tuple[Stage, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All remaining steps, in order."""
        return tuple(step for stage in self.stages for step in stage.steps)

    def after_step(self) -> Plan:
        """The plan without the step that was just done; its stage stays, even empty, until its effect is confirmed."""
        stage = self.stages[0]
        return replace(self, stages=(replace(stage, steps=stage.steps[1:]), *self.stages[1:]))

    def after_stage(self) -> Plan:
        """The plan without its first stage."""
        return replace(self, stages=self.stages[1:])


class StepStatus(str, Enum):
    """As in PlanStep.msg."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True)
class StepView:
    """A step as shown to people: the grounded point is NaN-free or None."""

    family: str
    instruction: str
    object: str
    target: str
    position: tuple[float, float, float] | None
    status: StepStatus
    attempts: int


@dataclass(frozen=True)
class PlanView:
    """The plan as published: what was done, what runs, what is left. ``current`` is len(steps) at the end."""

    stamp_s: float
    instruction: str
    generation: int
    current: int
    steps: tuple[StepView, ...]
