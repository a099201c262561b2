"""What the agent tells the world while it works: a typed stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from vlatools.agent.plan import PlanView


class EventKind(str, Enum):
    """The names equal those in AgentEvent.msg."""

    OBSERVED = "observed"
    PLANNED = "planned"
    INVOKED = "invoked"
    RETURNED = "returned"
    EFFECT_CHECKED = "effect_checked"
    REPLANNED = "replanned"
    GAVE_UP = "gave_up"
    FINISHED = "finished"
    MODEL_CALL = "model_call"
    ERROR = "error"


@dataclass(frozen=True)
class AgentEvent:
    """Something that the agent did or was told.

    Attributes:
        kind: what.
        stamp_s: monotonic seconds.
        message: one sentence for a person.
        data: details: SI units, fr3_link0; JSON-compatible.
    """

    kind: EventKind
    stamp_s: float
    message: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerEntry:
    """What one call of the planner cost. ``cost_usd`` is NaN if unknown."""

    stamp_s: float
    model: str
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0


AgentNotice: TypeAlias = AgentEvent | PlanView | LedgerEntry
