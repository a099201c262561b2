"""The table at the end of a batch of trials, for the terminal and for files."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vlatools.trials.metrics import FamilyStats, Rate, Spread, family_stats, rate, spread
from vlatools.trials.record import Trial


@dataclass(frozen=True)
class TrialRow:
    """One trial of a batch, wherever it ran.

    Attributes:
        task, seed: which.
        success: verified success; None counts as failure and is told apart in ``why``.
        claimed: what the planner claimed.
        duration_s: of the task, seconds.
        why: reason of a failure in a few words, "" for a success.
        replans: times that the planner was asked again.
        invocations: rows of TaskResult.table().
    """

    task: str
    seed: int
    success: bool | None
    claimed: bool
    duration_s: float
    why: str = ""
    replans: int = 0
    invocations: tuple[dict[str, Any], ...] = field(default_factory=tuple)

    @staticmethod
    def of(trial: Trial) -> TrialRow:
        """The row of a recorded trial."""
        why = "" if trial.success else (trial.message or trial.outcome or trial.status)
        return TrialRow(
            trial.task,
            trial.seed,
            trial.success,
            bool(trial.claimed),
            float(trial.result.get("duration_s", trial.duration_s)),
            why,
            int(trial.result.get("replans", 0)),
            trial.invocations,
        )


def read_rows(path: Path) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Rows of earlier runs of a trial benchmark by (task, seed, disturbance); a line that a kill has cut off is left out."""
    rows: dict[tuple[str, int, str], dict[str, Any]] = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                print(f"{path}: a line that is no JSON is left out", file=sys.stderr)
                continue
            rows[(row["task"], row["seed"], row["disturb"])] = row
    return rows


@dataclass(frozen=True)
class TaskSummary:
    """One task of a batch; ``false_claims`` counts trials that claimed success and had none."""

    task: str
    success: Rate
    duration: Spread
    invocations: Spread
    replans: int
    false_claims: int
    failures: tuple[tuple[str, int], ...]


def summarize(rows: Iterable[TrialRow]) -> tuple[TaskSummary, ...]:
    """Summary per task, in the order of their first trial."""
    tasks: dict[str, list[TrialRow]] = {}
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    return tuple(
        TaskSummary(
            task,
            rate(sum(row.success is True for row in members), len(members)),
            spread(row.duration_s for row in members if row.success),
            spread(len(row.invocations) for row in members if row.success),
            sum(row.replans for row in members),
            sum(row.claimed and row.success is not True for row in members),
            tuple(Counter(row.why or "not judged" for row in members if row.success is not True).most_common()),
        )
        for task, members in tasks.items()
    )


def summary_table(rows: Sequence[TrialRow]) -> Group:
    """Success per task with Wilson intervals, reasons of failures, and how each family did."""
    tasks = summarize(rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task")
    for column in ("success", "95 % interval", "median time", "p95", "calls", "replans", "false claims"):
        table.add_column(column, justify="right", no_wrap=True)
    for task in tasks:
        share = task.success
        table.add_row(
            task.task,
            Text(f"{share.successes}/{share.total}", style="bold green" if share.successes == share.total else "bold"),
            f"{100 * share.low:.1f} to {100 * share.high:.1f} %",
            _seconds(task.duration.median),
            _seconds(task.duration.p95),
            f"{task.invocations.median:.0f}" if task.invocations.count else "-",
            str(task.replans),
            Text(str(task.false_claims), style="bold red" if task.false_claims else "dim"),
        )
    parts: list[Any] = [table]
    failures = [(task.task, why, count) for task in tasks for why, count in task.failures]
    if failures:
        parts.append(Text("\nfailures", style="bold"))
        parts += [Text(f"  {task}: {count} x {why}") for task, why, count in failures]
    families = family_stats([invocation for row in rows for invocation in row.invocations])
    if families:
        parts += [Text(""), family_table(families)]
    return Group(*parts)


def family_table(families: Sequence[FamilyStats]) -> Table:
    """Table of the tool families."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("family")
    for column in ("completed", "95 % interval", "median time", "p95", "clips"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("other outcomes")
    for family in families:
        share = family.completed
        table.add_row(
            family.family,
            f"{share.successes}/{share.total}",
            f"{100 * share.low:.1f} to {100 * share.high:.1f} %",
            _seconds(family.duration.median),
            _seconds(family.duration.p95),
            str(family.clips),
            ", ".join(f"{count} {outcome}" for outcome, count in family.others) or "-",
        )
    return table


def _seconds(value: float) -> str:
    return "-" if value != value else f"{value:.1f} s"
