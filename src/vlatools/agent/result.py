"""What a task returns, and what it reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vlatools.agent.effects import EffectCheck
from vlatools.agent.state import CallRecord
from vlatools.core import Outcome, Verdict


@dataclass(frozen=True)
class TaskFeedback:
    """Where the task stands: step ``current`` (from 0) of ``total``, and the running invocation's progress."""

    current: int
    total: int
    family: str
    instruction: str
    progress: float
    verdict: Verdict
    elapsed_s: float


@dataclass(frozen=True)
class TaskResult:
    """How a task ended.

    Attributes:
        outcome: COMPLETED only when the final effects were confirmed by perception; STAGNATED when it gave up.
        reason: short machine-readable reason, "" if none.
        message: one sentence for a person.
        claimed: the planner claims success.
        verified: perception confirmed every expected final effect (at least one).
        duration_s: seconds from start to end.
        records: finished invocations, oldest first.
        replans: times that the planner was asked again.
        model_calls: planner calls that cost tokens.
        checks: the final effects as judged last.
    """

    outcome: Outcome
    reason: str
    message: str
    claimed: bool
    verified: bool
    duration_s: float
    records: tuple[CallRecord, ...]
    replans: int
    model_calls: int
    checks: tuple[EffectCheck, ...]

    def table(self) -> list[dict[str, Any]]:
        """Per-invocation rows, JSON-compatible, SI units."""
        return [
            {
                "family": str(record.result.invocation.family),
                "instruction": record.result.invocation.instruction,
                "stage": record.stage,
                "generation": record.result.invocation.plan_generation,
                "outcome": str(record.result.outcome),
                "reason": record.result.reason,
                "verdict": record.verdict,
                "progress": round(float(record.result.progress), 3),
                "duration": round(float(record.result.duration_s), 3),
                "started": round(record.started_s, 3),
                "chunks": record.result.chunks,
                "clips": record.result.clips,
            }
            for record in self.records
        ]
