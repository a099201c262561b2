"""report.html of a trial: one self-contained page, made from its bag and trial.json alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from vlatools.trials.bag_info import BagInfo, bag_info
from vlatools.trials.bag_read import BagUnreadable
from vlatools.trials.files import write_atomically
from vlatools.trials.metrics import spread
from vlatools.trials.record import DIED, REPORT, Trial, load_trial
from vlatools.trials.report_data import Call, Note, TrialData, read_trial_data
from vlatools.trials.report_figures import (
    DEFAULT_THRESHOLD,
    FAMILIES,
    arm_lanes,
    family_class,
    path_above,
    path_aside,
    progress_curve,
    ticks,
)
from vlatools.trials.report_frames import key_frames, projector

_NOTES = frozenset(
    ("fault", "cleared", "refused", "diagnostic", "error", "gave_up", "replanned", "finished", "effect_checked")
)
_BAD = frozenset(("fault", "refused", "gave_up"))
_WARN = frozenset(("diagnostic", "error", "replanned"))


@dataclass(frozen=True)
class TimelineRow:
    """One row of the timeline: a call with its bar, or a new plan. Positions are percent of the trial."""

    kind: str
    label: str
    left: float
    width: float
    family: str
    outcome: str
    note: str


def write_report(path: Path) -> Path:
    """Write ``report.html`` into a trial's folder and return its path.

    Raises:
        TrialError: no trial there.
        OSError: it could not be written.
    """
    trial = load_trial(path)
    target = trial.path / REPORT
    write_atomically(target, render_report(trial))
    return target


def render_report(trial: Trial) -> str:
    """The page as text. A bag that is missing or damaged makes a shorter page, never an error."""
    try:
        data, info, trouble = read_trial_data(trial.bag), bag_info(trial.bag), ""
    except BagUnreadable as error:
        data, info, trouble = TrialData(), None, str(error)
    calibration = trial.provenance.get("calibration") or {}
    project = projector(data, calibration)
    calls = [call for call in data.calls if not call.primitive]
    environment = Environment(
        loader=PackageLoader("vlatools.trials"), autoescape=select_autoescape(default=True), trim_blocks=True
    )
    page = environment.get_template("report.html.j2")
    return page.render(
        trial=trial,
        badge=_badge(trial),
        started=_local(trial.started),
        facts=_facts(trial, data, calls),
        trouble=trouble or data.damage,
        frames=[(frame, Markup(frame.overlay), family_class(frame.family)) for frame in key_frames(data, project)],
        uncalibrated=bool(data.frames) and project is None,
        timeline=timeline(data),
        axis=[(100 * t / max(data.duration, 1e-9), f"{t:g} s") for t in ticks(0, data.duration, 8)],
        faults=[(100 * n.t / max(data.duration, 1e-9), n.message) for n in data.notes if n.kind == "fault"],
        families=[f for f in FAMILIES if any(call.family == f for call in calls)],
        curves=[(call, Markup(progress_curve(call)), family_class(call.family)) for call in calls],
        default_threshold=DEFAULT_THRESHOLD,
        above=Markup(path_above(data)) if data.arm or data.scenes else "",
        aside=Markup(path_aside(data)) if data.arm or data.scenes else "",
        lanes=Markup(arm_lanes(data)),
        notes=[(n, _style(n)) for n in data.notes if n.kind in _NOTES and not _confirmed(n)],
        confirmed=[(n, "") for n in data.notes if _confirmed(n)],
        topics=_topics(trial, info),
        figures=_figures(trial, data, calls),
        models=data.models,
        provenance=_provenance(trial),
    )


def timeline(data: TrialData) -> list[TimelineRow]:
    """Rows of the timeline in order of time; a row of its own for every plan after the first."""
    total = max(data.duration, 1e-9)
    rows: list[tuple[float, TimelineRow]] = []
    for call in data.calls:
        end = call.end if call.end is not None else data.duration
        note = "not ended when the bag ends" if call.end is None else f"{call.outcome} {call.reason}".strip()
        rows.append(
            (
                call.start,
                TimelineRow(
                    "primitive" if call.primitive else "call",
                    call.instruction,
                    100 * call.start / total,
                    100 * max(0.0, end - call.start) / total,
                    family_class(call.family) if not call.primitive else "f-other",
                    call.outcome,
                    f"{end - call.start:.1f} s, {note}",
                ),
            )
        )
    reasons = [note for note in data.notes if note.kind == "replanned"]
    for plan in data.plans[1:]:
        why = min(reasons, key=lambda note: abs(note.t - plan.t), default=None)
        text = why.message if why is not None and abs(why.t - plan.t) < 2.0 else f"{len(plan.steps)} steps"
        rows.append((plan.t, TimelineRow("plan", "new plan", 100 * plan.t / total, 0.0, "", "", text)))
    return [row for _, row in sorted(rows, key=lambda item: (item[0], item[1].kind != "plan"))]


def _confirmed(note: Note) -> bool:
    """An effect that was checked and found: good to know, and rarely worth a line of its own."""
    return note.kind == "effect_checked" and note.data.get("truth") == "true"


def _style(note: Note) -> str:
    return "bad" if note.kind in _BAD else "warn" if note.kind in _WARN or note.kind == "effect_checked" else ""


def _badge(trial: Trial) -> tuple[str, str, str]:
    """Style, word and explanation of the header's badge."""
    judge: dict[str, Any] = next((v for v in reversed(trial.verdicts) if v.get("value") is trial.success), {})
    by = {"sim_truth": "the simulation's true state", "perception": "perception", "operator": "the operator"}.get(
        str(judge.get("verified_by")), "nobody"
    )
    claim = {True: "the planner claimed success", False: "the planner claimed no success"}.get(
        trial.claimed, "the planner made no claim"  # type: ignore[arg-type]
    )
    if trial.status == DIED:
        return "bad", "Recorder died", f"What was flushed is shown; {claim}"
    if trial.success is None:
        return "warn", "Not judged", f"Nobody could judge the final state; {claim}"
    text = f"Judged by {by}; {claim}"
    return ("good", "Success", text) if trial.success else ("bad", "Failure", text)


def _facts(trial: Trial, data: TrialData, calls: list[Call]) -> list[tuple[str, str, str]]:
    """Tiles under the header: value, label, style."""
    completed = sum(call.outcome == "COMPLETED" for call in calls)
    replans = max(0, len(data.plans) - 1)
    clips = sum(call.clips for call in calls)
    faults = sum(note.kind == "fault" for note in data.notes)
    dropped = int(trial.recording.get("dropped", 0))
    seconds = float(trial.result.get("duration_s") or data.duration)
    return [
        (f"{seconds:.1f} s", "duration", ""),
        (f"{completed}/{len(calls)}", "invocations completed", "" if completed == len(calls) else "warn"),
        (str(replans), "replan" if replans == 1 else "replans", "warn" if replans else ""),
        (str(clips), "targets clipped", ""),
        (str(faults), "arm fault" if faults == 1 else "arm faults", "bad" if faults else ""),
        (f"{dropped}", "messages dropped", "warn" if dropped else ""),
    ]


def _topics(trial: Trial, info: BagInfo | None) -> list[dict[str, Any]]:
    rates = trial.recording.get("rates", {})
    counts = trial.recording.get("topics", {})
    return [
        {
            "name": topic.name,
            "count": topic.count,
            "rate": f"{topic.rate_hz:.1f} Hz" if topic.count > 1 else "",
            "expected": f"{rates[topic.name]['expected_hz']:g} Hz" if topic.name in rates else "",
            "met": rates.get(topic.name, {}).get("met", True),
            "gap": f"{topic.longest_gap_s:.2f} s" if topic.count > 1 else "",
            "dropped": counts.get(topic.name, {}).get("dropped", topic.dropped),
        }
        for topic in (info.topics if info else ())
    ]


def _figures(trial: Trial, data: TrialData, calls: list[Call]) -> list[tuple[str, str, str]]:
    """Latencies and the like: name, median, 95th percentile."""
    ages = spread(sample.age for call in calls for sample in call.samples)
    first = spread(call.samples[0].t - call.start for call in calls if call.samples)
    gaps = spread(b.t - a.t for call in calls for a, b in itertools.pairwise(call.samples))
    between = spread(
        b.start - a.end for a, b in itertools.pairwise(calls) if a.end is not None and b.start >= a.end
    )
    force = spread(sample.force for sample in data.arm)
    rows = [
        ("age of the observation behind a progress sample", ages, 1000, "ms"),
        ("invocation to its first progress sample", first, 1000, "ms"),
        ("between progress samples", gaps, 1000, "ms"),
        ("between invocations", between, 1, "s"),
        ("external force at the tool", force, 1, "N"),
    ]
    digits = {"ms": 0, "s": 2, "N": 1}
    found = [
        (name, f"{value.median * k:.{digits[unit]}f} {unit}", f"{value.p95 * k:.{digits[unit]}f} {unit}")
        for name, value, k, unit in rows
        if value.count and math.isfinite(value.median)
    ]
    corrected = int(trial.recording.get("stamps_corrected", 0))
    return [*found, ("receive stamps that went back and were raised", str(corrected), "")] if corrected else found


def _provenance(trial: Trial) -> list[tuple[str, str]]:
    source = trial.provenance
    host, git, calibration = source.get("host", {}), source.get("git", {}), source.get("calibration") or {}
    commit = str(git.get("commit", ""))[:12] + (" with local changes" if git.get("changed") else "")
    rows = [
        ("trial", trial.path.name),
        ("host", ", ".join(str(host[k]) for k in ("name", "system", "machine") if host.get(k))),
        ("Python", str(host.get("python", ""))),
        ("commit", commit),
        ("calibration", str(calibration.get("hash") or calibration.get("error") or "none")),
        *((name, str(version)) for name, version in source.get("versions", {}).items()),
    ]
    return [(name, value) for name, value in rows if value]


def _local(stamp: str) -> str:
    return f"{datetime.fromisoformat(stamp):%d %B %Y, %H:%M:%S} UTC"
