"""A trial's folder: ``trials/<date>_<task>_<seed>_<id>/{bag/, trial.json, report.html}``, and the record that trial.json holds.

trial.json is written at the start (status ``running``) and at the end, each time as a whole. A trial whose recorder died therefore
still says what was tried; :func:`load_trial` notices that the process is gone.
"""

from __future__ import annotations

import json
import os
import re
import socket
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from vlatools.core import VlatoolsError
from vlatools.trials.bag import BagCheck
from vlatools.trials.bag_info import BagInfo
from vlatools.trials.files import write_atomically
from vlatools.trials.judge import Verdict, VerifiedBy, decide

FORMAT = "vlatools-trial-1"
FILE = "trial.json"
BAG = "bag"
REPORT = "report.html"

RUNNING, FINISHED, INTERRUPTED, DIED = "running", "finished", "interrupted", "died"


class TrialError(VlatoolsError):
    """A trial cannot be made, found or read; the message says why and what to do."""


@dataclass(frozen=True)
class Trial:
    """One trial; every field stands in trial.json under the same name.

    Attributes:
        path: the trial's folder (not in the file).
        trial_id, instruction, task, seed: what was tried; seed -1 on the real robot.
        status: ``running``, ``finished``, ``interrupted`` (the recorder was ended) or ``died`` (it was killed).
        started, ended: ISO 8601, UTC; ended "" while running.
        duration_s: between the two.
        outcome, message: of the task, as its result said.
        claimed: what the planner claims.
        success: the verdict that counts; None: nobody could judge.
        verdicts: all verdicts, each as :meth:`Verdict.as_dict`.
        invocations: one row per tool invocation.
        result: whatever else the result held.
        recording: counts, drops, rates and errors of the bag.
        provenance: host, versions, git commit, calibration.
        metadata: what the caller of /recorder/start wanted kept.
        process: host, pid and start time of the recorder.
    """

    path: Path
    trial_id: str
    instruction: str
    task: str
    seed: int
    started: str
    status: str = RUNNING
    ended: str = ""
    duration_s: float = 0.0
    outcome: str = ""
    message: str = ""
    claimed: bool | None = None
    success: bool | None = None
    verdicts: tuple[dict[str, Any], ...] = ()
    invocations: tuple[dict[str, Any], ...] = ()
    result: dict[str, Any] = field(default_factory=dict)
    recording: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    process: dict[str, Any] = field(default_factory=dict)

    @property
    def bag(self) -> Path:
        """Folder of its bag."""
        return self.path / BAG

    def save(self) -> None:
        """Write trial.json. Raises OSError."""
        content = {"format": FORMAT, **{key: value for key, value in vars(self).items() if key != "path"}}
        write_atomically(self.path / FILE, json.dumps(content, indent=1, allow_nan=True, default=str) + "\n")


def begin_trial(
    root: Path,
    instruction: str,
    task: str,
    seed: int,
    now: datetime,
    trial_id: str = "",
    metadata: dict[str, Any] | None = None,
    provenance: dict[str, Any] | None = None,
) -> Trial:
    """Make a trial's folder and its trial.json with status ``running``.

    Raises:
        TrialError: the id cannot be part of a folder's name, or the folder cannot be made.
    """
    if trial_id and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", trial_id):
        raise TrialError(f"trial_id '{trial_id}' may hold letters, digits, '.', '_' and '-', at most 64: change it")
    trial_id = trial_id or uuid.uuid4().hex[:6]
    name = re.sub(r"[^A-Za-z0-9-]+", "-", task).strip("-") or "free"
    stamp = now.astimezone(timezone.utc)
    path = root.resolve() / f"{stamp:%Y%m%d-%H%M%S}_{name}_{seed}_{trial_id}"
    trial = Trial(
        path=path,
        trial_id=trial_id,
        instruction=instruction,
        task=task,
        seed=seed,
        started=stamp.isoformat(timespec="milliseconds"),
        metadata=metadata or {},
        provenance=provenance or {},
        process={"host": socket.gethostname(), "pid": os.getpid(), "started": _process_start(os.getpid())},
    )
    try:
        path.mkdir(parents=True)
        trial.save()
    except OSError as error:
        raise TrialError(f"cannot make the trial folder {path}: {error}: choose another root or free the disk") from error
    return trial


def end_trial(
    trial: Trial,
    now: datetime,
    outcome: str,
    message: str,
    result: dict[str, Any],
    recording: dict[str, Any],
    status: str = FINISHED,
) -> Trial:
    """Write the end into trial.json and return it.

    Args:
        trial: as begun.
        now: wall time.
        outcome, message: of the task.
        result: judged result. ``claimed``, ``verdicts`` and ``invocations`` become fields of the trial, the rest is kept.
        recording: see :func:`recording_entry`.
        status: ``finished`` or ``interrupted``.

    Raises:
        OSError: trial.json could not be written; the one of the start is still there.
    """
    rest = dict(result)
    claimed = rest.pop("claimed", None)
    ended = replace(
        trial,
        status=status,
        ended=now.astimezone(timezone.utc).isoformat(timespec="milliseconds"),
        duration_s=round((now - datetime.fromisoformat(trial.started)).total_seconds(), 3),
        outcome=outcome,
        message=message,
        claimed=claimed if isinstance(claimed, bool) else None,
        verdicts=_rows(rest.pop("verdicts", ())),
        invocations=_rows(rest.pop("invocations", ())),
        result=rest,
        recording=recording,
    )
    ended = replace(ended, success=_success(ended.verdicts))
    ended.save()
    return ended


def add_verdict(path: Path, verdict: Verdict) -> Trial:
    """Add a verdict, such as an operator's, to a trial that has ended; the earlier ones stay. Raises TrialError, OSError."""
    trial = load_trial(path)
    if trial.status == RUNNING:
        raise TrialError(f"trial {trial.trial_id} is still running: judge it when it has ended")
    verdicts = (*trial.verdicts, verdict.as_dict())
    judged = replace(trial, verdicts=verdicts, success=_success(verdicts))
    judged.save()
    return judged


def recording_entry(check: BagCheck, info: BagInfo | None, expected_hz: dict[str, float]) -> dict[str, Any]:
    """The ``recording`` entry: what was written, dropped and measured, and whether the expected rates were met.

    A topic meets its rate when its mean rate in the bag is at least 90 % of the expected one.
    """
    stats = {topic.name: topic for topic in info.topics} if info else {}
    rates = {
        name: {
            "expected_hz": expected,
            "measured_hz": round(stats[name].rate_hz, 2) if name in stats else 0.0,
            "longest_gap_s": round(stats[name].longest_gap_s, 3) if name in stats else None,
            "met": name in stats and stats[name].rate_hz >= 0.9 * expected,
        }
        for name, expected in expected_hz.items()
    }
    return {
        "ok": check.ok,
        "error": check.error,
        "messages": check.written,
        "dropped": check.dropped,
        "stamps_corrected": check.stamps_corrected,
        "duration_s": round(info.duration_s, 3) if info else 0.0,
        "size_bytes": info.size_bytes if info else 0,
        "rates": rates,
        "topics": {
            name: {"type": count.type, "written": count.written, "dropped": count.dropped, "found": count.found}
            for name, count in sorted(check.counts.items())
        },
    }


def load_trial(path: Path) -> Trial:
    """Read a trial; ``path`` is its folder or its trial.json.

    Raises:
        TrialError: no trial there, or its trial.json is broken or of another format.
    """
    folder = path.parent if path.name == FILE else path
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrialError(f"{folder} is no trial: it has no {FILE}; `vlatools trial list` shows those there are") from None
    except (OSError, ValueError) as error:
        raise TrialError(f"{folder / FILE} cannot be read: {error}") from error
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise TrialError(f"{folder / FILE} is not of format {FORMAT}: it was written by another version")
    for key in ("verdicts", "invocations"):
        content[key] = _rows(content.get(key, ()))
    try:
        trial = Trial(path=folder, **content)
    except TypeError as error:
        raise TrialError(f"{folder / FILE} does not fit {FORMAT}: {error}") from error
    return replace(trial, status=DIED) if trial.status == RUNNING and _is_gone(trial.process) else trial


def find_trials(root: Path) -> tuple[Trial, ...]:
    """All readable trials below ``root``, oldest first; an empty or missing folder has none."""
    found = []
    for file in sorted(root.glob(f"*/{FILE}")):
        try:
            found.append(load_trial(file.parent))
        except TrialError:
            continue
    return tuple(sorted(found, key=lambda trial: trial.started))


def find_trial(root: Path, name: str) -> Trial:
    """A trial by path, folder name, trial id or a unique part of the folder name; ``last`` is the newest. Raises TrialError."""
    if (Path(name) / FILE).is_file() or Path(name).name == FILE:
        return load_trial(Path(name))
    trials = find_trials(root)
    if name == "last" and trials:
        return trials[-1]
    matches = [t for t in trials if name in (t.trial_id, t.path.name)] or [t for t in trials if name in t.path.name]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise TrialError(f"no trial '{name}' in {root} ({len(trials)} trials): `vlatools trial list` shows them")
    raise TrialError(f"'{name}' fits {[t.path.name for t in matches[:5]]}: give more of the name")


def _rows(value: Any) -> tuple[dict[str, Any], ...]:
    return tuple(dict(row) for row in value if isinstance(row, dict)) if isinstance(value, (list, tuple)) else ()


def _success(verdicts: tuple[dict[str, Any], ...]) -> bool | None:
    known = {member.value for member in VerifiedBy}
    judged = decide(
        Verdict(VerifiedBy(row["verified_by"]), row.get("value"), row.get("claimed"), str(row.get("message", "")))
        for row in verdicts
        if row.get("verified_by") in known
    )
    return judged.value if judged else None


def _process_start(pid: int) -> str:
    """Start time of a process in clock ticks since boot, "" if there is none: tells a reused pid from the first one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def _is_gone(process: dict[str, Any]) -> bool:
    if process.get("host") != socket.gethostname():
        return False
    return _process_start(int(process.get("pid", -1))) != process.get("started")
