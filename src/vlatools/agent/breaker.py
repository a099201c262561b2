"""Counts what a task has cost and what keeps failing, and says when it is enough. Rewording clears nothing."""

from __future__ import annotations

from collections import Counter

from vlatools.agent.budget import TaskBudget
from vlatools.core import Outcome

Key = tuple[str, str, str]


class TaskEnded(Exception):
    """The task ends here, with this outcome."""

    def __init__(self, outcome: Outcome, reason: str, message: str, *, claimed: bool = False) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.reason = reason
        self.message = message
        self.claimed = claimed


class Breaker:
    """Failures by (family, object, target), time lost since the last goal, invocations, replans: against a budget."""

    def __init__(self, budget: TaskBudget) -> None:
        self._budget = budget
        self._failures: Counter[Key] = Counter()
        self._lost_s = 0.0
        self._invocations = 0
        self.replans = 0

    def failures(self, key: Key) -> int:
        """Failures of a step so far."""
        return self._failures[key]

    @property
    def exhausted(self) -> frozenset[Key]:
        """Steps that may not be tried again."""
        return frozenset(key for key, count in self._failures.items() if count >= self._budget.attempts_per_step)

    def invoke(self, key: Key, instruction: str) -> None:
        """Count an invocation. Raises TaskEnded when the step or the task has had enough of them."""
        if key in self.exhausted:
            raise TaskEnded(
                Outcome.STAGNATED,
                "attempts_exhausted",
                f"'{instruction}' failed {self._failures[key]} times, the limit is {self._budget.attempts_per_step}: "
                "it is no longer tried",
            )
        if self._invocations >= self._budget.max_invocations:
            raise TaskEnded(
                Outcome.STAGNATED,
                "invocation_budget",
                f"{self._invocations} invocations were made, the limit is {self._budget.max_invocations}",
            )
        self._invocations += 1

    def fail(self, key: Key, lost_s: float) -> None:
        """Count a failure and the seconds that went into it."""
        self._failures[key] += 1
        self._lost_s += lost_s

    def replan(self, message: str) -> None:
        """Count a replan after the failure ``message`` tells of. Raises TaskEnded when it is one too many."""
        if self.replans >= self._budget.max_replans:
            limit = self._budget.max_replans
            raise TaskEnded(Outcome.STAGNATED, "replan_budget", f"{message}; {limit} replans are used up")
        if self._lost_s > self._budget.no_progress_s:
            raise TaskEnded(
                Outcome.STAGNATED,
                "no_progress",
                f"{message}; {self._lost_s:.1f} s went into failed invocations since the last goal was reached, the "
                f"limit is {self._budget.no_progress_s:g} s",
            )
        self.replans += 1

    def progress(self, name: str) -> None:
        """A goal of the instruction was reached by moving ``name``: only this clears what was held against it."""
        self._lost_s = 0.0
        for key in [key for key in self._failures if key[1] == name]:
            del self._failures[key]
