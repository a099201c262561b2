"""trial.json: whole at every moment, honest about what was claimed and what died."""

import io
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from rich.console import Console

from vlatools.trials.bag import BagCheck
from vlatools.trials.bag_info import BagInfo, TopicStats
from vlatools.trials.bag_metadata import TopicCount
from vlatools.trials.judge import Verdict, VerifiedBy, operator_verdict
from vlatools.trials.record import (
    DIED,
    RUNNING,
    TrialError,
    add_verdict,
    begin_trial,
    end_trial,
    find_trial,
    find_trials,
    load_trial,
    recording_entry,
)
from vlatools.trials.tables import list_trials, show_trial

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone.utc)
CALLS = [{"family": "reach", "instruction": "reach the red cube", "outcome": "COMPLETED", "progress": 1, "duration": 2.5}]


def begin(root, **more):
    return begin_trial(root, "put it there", "simple", 7, more.pop("now", NOW), **more)


def check(ok=True, error=""):
    return BagCheck(ok, error, {"/a": TopicCount("std_msgs/msg/String", 90, 2, 90)}, 0)


def finish(trial, value=True, claimed=True):
    verdict = Verdict(VerifiedBy.SIM_TRUTH, value, claimed, "judged").as_dict()
    result = {"claimed": claimed, "verdicts": [verdict], "invocations": CALLS, "replans": 3}
    return end_trial(
        trial, NOW + timedelta(seconds=12.5), "COMPLETED", "done", result, recording_entry(check(), None, {})
    )


def shown(renderable):
    console = Console(file=io.StringIO(), width=200)
    console.print(renderable)
    return console.file.getvalue()


def test_begin_and_end(tmp_path):
    trial = begin(tmp_path, trial_id="abc", metadata={"speed": 0.5})
    assert trial.path.name == "20260304-050607_simple_7_abc"
    assert load_trial(trial.path).status == RUNNING
    ended = finish(trial)
    again = load_trial(trial.path / "trial.json")
    assert again == ended and again.success is True and again.duration_s == 12.5
    assert again.result == {"replans": 3} and again.metadata == {"speed": 0.5}
    assert not [p for p in trial.path.iterdir() if p.name.endswith(".tmp")]


def test_an_operator_has_the_last_word_and_claims_stay(tmp_path):
    trial = finish(begin(tmp_path))
    judged = add_verdict(trial.path, operator_verdict(False, True, "Ada"))
    assert judged.success is False and judged.claimed is True and len(judged.verdicts) == 2
    assert "failure (claimed)" in shown(list_trials(tmp_path))
    with pytest.raises(TrialError, match="still running"):
        add_verdict(begin(tmp_path, trial_id="x").path, operator_verdict(True, None, "Ada"))


def test_a_killed_recorder_is_noticed(tmp_path):
    code = (
        "import sys, os, signal, pathlib, datetime as d\n"
        "from vlatools.trials.record import begin_trial\n"
        "begin_trial(pathlib.Path(sys.argv[1]), 'x', 't', 1, d.datetime.now(d.timezone.utc))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -9
    (trial,) = find_trials(tmp_path)
    assert trial.status == DIED
    assert "recorder died" in shown(list_trials(tmp_path)) and "bag repair" in shown(show_trial(trial.path))


def test_finding(tmp_path):
    a, b = begin(tmp_path, trial_id="aaa"), begin(tmp_path, trial_id="aab", now=NOW + timedelta(seconds=1))
    assert find_trial(tmp_path, "last").trial_id == "aab" and find_trial(tmp_path, "aaa").path == a.path
    assert find_trial(tmp_path, str(b.path)).trial_id == "aab"
    for name, message in (("simple", "give more"), ("zzz", "trial list")):
        with pytest.raises(TrialError, match=message):
            find_trial(tmp_path, name)
    (b.path / "trial.json").write_text("{")
    with pytest.raises(TrialError, match="cannot be read"):
        load_trial(b.path)
    assert [t.trial_id for t in find_trials(tmp_path)] == ["aaa"]
    (b.path / "trial.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(TrialError, match="another version"):
        load_trial(b.path)


@pytest.mark.parametrize("name", ["../x", "a/b", " ", "-x", "x" * 65])
def test_ids_cannot_leave_the_root(tmp_path, name):
    with pytest.raises(TrialError, match="trial_id"):
        begin(tmp_path, trial_id=name)


def test_unwritable_root(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrialError, match="another root"):
        begin(tmp_path / "file")
    begin(tmp_path, trial_id="same")
    with pytest.raises(TrialError, match="cannot make"):
        begin(tmp_path, trial_id="same")


def test_rates(tmp_path):
    info = BagInfo(tmp_path, True, "", True, 0, 10.0, 5, (TopicStats("/a", "t", 90, 9.1, 0.4, 2, 5),))
    entry = recording_entry(check(), info, {"/a": 10.0, "/b": 1.0})
    assert entry["rates"]["/a"]["met"] and not entry["rates"]["/b"]["met"] and entry["dropped"] == 2
    trial = end_trial(begin(tmp_path), NOW, "FAULT", "reflex", {"verdicts": "nonsense"}, entry)
    text = shown(show_trial(trial.path))
    assert "rates not met: /b" in text and "FAULT" in text and "not judged" in text
    assert os.fspath(trial.path) in text
