"""Figures over many trials: success with its uncertainty, durations, and how each tool family did."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vlatools.trials.intervals import wilson


@dataclass(frozen=True)
class Rate:
    """A success rate with its Wilson interval at 95 %.

    Attributes:
        successes, total: counts.
        low, high: interval; 0 and 1 without a trial.
    """

    successes: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """Share of successes; NaN without a trial."""
        return self.successes / self.total if self.total else math.nan

    def __str__(self) -> str:
        if not self.total:
            return "0/0"
        return f"{self.successes}/{self.total} ({100 * self.value:.1f} %, {100 * self.low:.1f} to {100 * self.high:.1f})"


def rate(successes: int, total: int) -> Rate:
    """Success rate of counts. Raises ValueError when they cannot be."""
    return Rate(successes, total, *wilson(successes, total))


@dataclass(frozen=True)
class Spread:
    """Median and 95th percentile of a quantity; NaN without a value."""

    count: int
    median: float
    p95: float


def spread(values: Iterable[float]) -> Spread:
    """Median and 95th percentile of the finite values."""
    finite = [value for value in map(float, values) if math.isfinite(value)]
    if not finite:
        return Spread(0, math.nan, math.nan)
    return Spread(len(finite), float(np.median(finite)), float(np.percentile(finite, 95)))


@dataclass(frozen=True)
class FamilyStats:
    """How one tool family did.

    Attributes:
        family: e.g. ``grasp``.
        completed: invocations that COMPLETED, of all.
        duration: of those that completed, seconds.
        clips: targets clipped, sum.
        others: the other outcomes with their counts, most frequent first.
    """

    family: str
    completed: Rate
    duration: Spread
    clips: int
    others: tuple[tuple[str, int], ...]


def family_stats(rows: Sequence[dict[str, Any]]) -> tuple[FamilyStats, ...]:
    """Per family, from rows of TaskResult.table(), in the order of their first use."""
    families: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault(str(row.get("family", "")), []).append(row)
    found = []
    for family, members in families.items():
        done = [row for row in members if row.get("outcome") == "COMPLETED"]
        others = Counter(str(row.get("outcome", "")) for row in members if row.get("outcome") != "COMPLETED")
        found.append(
            FamilyStats(
                family,
                rate(len(done), len(members)),
                spread(row.get("duration", math.nan) for row in done),
                sum(int(row.get("clips", 0)) for row in members),
                tuple(others.most_common()),
            )
        )
    return tuple(found)
