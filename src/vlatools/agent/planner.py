"""The planner port: who turns an instruction and what is seen into stages. A plan library and models alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from vlatools.agent.events import LedgerEntry
from vlatools.agent.plan import Stage
from vlatools.agent.state import AgentState


class Trigger(str, Enum):
    """Why the planner is asked again. Nothing else asks it."""

    STAGNATED = "stagnated"
    TIMEOUT = "timeout"
    FAULT = "fault"
    STALE_OBSERVATION = "stale_observation"
    REJECTED = "rejected"
    STEP_CHECK = "step_check"
    STAGE_CHECK = "stage_check"
    FINAL_CHECK = "final_check"


@dataclass(frozen=True)
class ReplanEvent:
    """What happened.

    Attributes:
        trigger: what kind of event.
        message: one sentence: what was tried, what came back.
        exhausted: steps (family, object, target) that failed too often and may not be planned again.
    """

    trigger: Trigger
    message: str
    exhausted: frozenset[tuple[str, str, str]] = frozenset()


@dataclass(frozen=True)
class PlannerReply:
    """Remaining stages, in order. No stages means that the planner claims to be done."""

    stages: tuple[Stage, ...]
    cost: LedgerEntry


class Planner(Protocol):
    """Plans once, and again on events. Both calls raise Rejected (the message says why) when there is no plan."""

    name: str

    def plan(self, state: AgentState) -> PlannerReply:
        """Stages for ``state.instruction``, from the first observation."""
        ...

    def replan(self, state: AgentState, event: ReplanEvent) -> PlannerReply:
        """Stages for what remains of ``state.plan``, from the newest observation.

        ``state.held`` says what is in the gripper; ``state.done`` what need not be done again unless it came undone.
        """
        ...
