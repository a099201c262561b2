"""Trials as tables for the terminal: ``vlatools trial list`` and ``vlatools trial show``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vlatools.trials.record import DIED, REPORT, RUNNING, Trial, find_trials, load_trial

OUTCOME_STYLES = {"COMPLETED": "green", "REJECTED": "yellow", "CANCELED": "yellow", "PREEMPTED": "yellow"}


def outcome_text(outcome: str) -> Text:
    """An outcome in its colour."""
    return Text(outcome or "-", style=OUTCOME_STYLES.get(outcome, "red") if outcome else "dim")


def success_text(trial: Trial) -> Text:
    """Verified success beside the claim: a claim that was not confirmed is marked."""
    if trial.success is None:
        return Text("not judged" + (" (claimed)" if trial.claimed else ""), style="yellow" if trial.claimed else "dim")
    if trial.success:
        return Text("success", style="bold green")
    return Text("failure" + (" (claimed)" if trial.claimed else ""), style="bold red")


def list_trials(root: Path) -> Table:
    """Table of all trials below ``root``, newest first."""
    trials = find_trials(root)[::-1]
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        title=f"{len(trials)} trials in {root}" if trials else f"no trials in {root} yet: `vlatools run` makes one",
        title_justify="left",
        title_style="",
    )
    for column in ("trial", "begun, UTC", "task", "seed", "verified", "outcome", "time", "calls", "lost"):
        numeric = column in ("seed", "time", "calls", "lost")
        wraps = column == "verified"
        table.add_column(column, justify="right" if numeric else "left", no_wrap=not wraps, min_width=7 if wraps else len(column))
    for trial in trials:
        dropped = int(trial.recording.get("dropped", 0))
        state = outcome_text(trial.outcome)
        if trial.status in (DIED, RUNNING):
            state = Text("recorder died" if trial.status == DIED else "running", style="yellow")
        table.add_row(
            trial.trial_id,
            trial.started[5:16].replace("T", " "),
            trial.task or "-",
            str(trial.seed) if trial.seed >= 0 else "real",
            success_text(trial),
            state,
            f"{trial.duration_s:.1f} s" if trial.ended else "-",
            str(len(trial.invocations)) if trial.ended else "-",
            Text(str(dropped), style="bold red" if dropped else "dim"),
        )
    return table


def show_trial(path: Path) -> Group:
    """Everything that trial.json says about one trial. Raises TrialError."""
    trial = load_trial(path)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    for key, value in _facts(trial):
        facts.add_row(key, value)
    parts: list[Any] = [Text(trial.instruction or "(no instruction)", style="bold"), facts]
    for verdict in trial.verdicts:
        value = verdict.get("value")
        word = "cannot say" if value is None else "success" if value else "failure"
        style = {True: "green", False: "red"}.get(value, "yellow")  # type: ignore[arg-type]
        parts.append(Text.assemble((f"{verdict.get('verified_by')}: {word}", style), f"  {verdict.get('message', '')}"))
    if trial.invocations:
        parts += [Text(""), invocation_table(trial.invocations)]
    missed = [
        f"{topic}: {rate['measured_hz']} Hz, expected {rate['expected_hz']} Hz"
        for topic, rate in trial.recording.get("rates", {}).items()
        if not rate.get("met")
    ]
    if missed:
        parts += [Text(""), Text("rates not met: " + "; ".join(missed), style="yellow")]
    return Group(*parts)


def invocation_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Table of tool invocations, as in TaskResult.table()."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", style="dim")
    table.add_column("invocation")
    table.add_column("outcome")
    for column in ("progress", "time", "chunks", "clips"):
        table.add_column(column, justify="right")
    for number, row in enumerate(rows, 1):
        outcome = outcome_text(str(row.get("outcome", "")))
        if row.get("reason"):
            outcome.append(f" {row['reason']}", style="dim")
        table.add_row(
            str(number),
            str(row.get("instruction", "")),
            outcome,
            f"{float(row.get('progress', 0.0)):.2f}",
            f"{float(row.get('duration', 0.0)):.1f} s",
            str(row.get("chunks", "")),
            str(row.get("clips", "")),
        )
    return table


def _facts(trial: Trial) -> list[tuple[str, Any]]:
    recording, provenance = trial.recording, trial.provenance
    git = provenance.get("git", {})
    calibration = provenance.get("calibration", {})
    commit = str(git.get("commit", ""))[:12] + (" with changes" if git.get("changed") else "")
    bag = f"{recording.get('messages', 0)} messages, {recording.get('dropped', 0)} dropped"
    if recording and not recording.get("ok", False):
        bag += f", not sound: {recording.get('error')}"
    report = trial.path / REPORT
    return [
        ("folder", os.fspath(trial.path)),
        ("task", f"{trial.task or '-'}, seed {trial.seed}" if trial.seed >= 0 else f"{trial.task or '-'}, real robot"),
        ("status", trial.status if trial.status != DIED else "the recorder died; `vlatools bag repair` mends the bag"),
        ("started", trial.started),
        ("duration", f"{trial.duration_s:.1f} s"),
        ("outcome", Text.assemble(outcome_text(trial.outcome), "  ", trial.message)),
        ("verified", success_text(trial)),
        ("bag", bag),
        ("software", f"{provenance.get('versions', {}).get('vlatools', '')} {commit}".strip() or "-"),
        ("calibration", str(calibration.get("hash") or calibration.get("error") or "-")),
        ("report", os.fspath(report) if report.exists() else "not made"),
    ]
