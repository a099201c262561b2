"""The report: everything in it comes from the bag and trial.json, it is one file, and a damaged bag makes a shorter one."""

import os
import re
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest

from tests.trials.synthetic import camera_pose, project, write_story
from vlatools.trials.bag_info import bag_info
from vlatools.trials.invocations import invocations_of
from vlatools.trials.judge import Verdict, VerifiedBy
from vlatools.trials.record import begin_trial, end_trial, load_trial, recording_entry
from vlatools.trials.report import render_report, timeline, write_report
from vlatools.trials.report_data import read_trial_data
from vlatools.trials.report_figures import progress_curve, ticks
from vlatools.trials.report_frames import key_frames, projector

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone.utc)
TASK = "put the red cube into the left bowl, then the yellow cube into the right bowl"


def make_trial(root, images=True, instruction=TASK, success=True):
    pose = camera_pose()
    calibration = {"hash": "abc", "position": list(pose.position), "quat_xyzw": list(pose.quat_xyzw)}
    trial = begin_trial(root, instruction, "simple", 7, NOW, provenance={"calibration": calibration})
    check, rows, seconds = write_story(trial.bag, images)
    assert check.ok
    verdict = Verdict(VerifiedBy.SIM_TRUTH, success, True, "judged").as_dict()
    result = {"claimed": True, "verdicts": [verdict], "invocations": rows, "replans": 1}
    entry = recording_entry(check, bag_info(trial.bag), {"/arm/state": 50.0, "/tools/progress": 50.0})
    return end_trial(trial, NOW + timedelta(seconds=seconds), "COMPLETED", "every effect is confirmed", result, entry)


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return make_trial(tmp_path_factory.mktemp("trials"))


@pytest.fixture(scope="module")
def data(trial):
    return read_trial_data(trial.bag)


class Page(HTMLParser):
    """Checks that every tag is closed and gathers what the page asks of others."""

    VOID = frozenset(("meta", "img", "line", "circle", "rect", "path", "polyline", "polygon"))

    def __init__(self, text):
        super().__init__()
        self.stack, self.sources, self.count = [], [], {}
        self.feed(text)
        assert not self.stack, self.stack

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.sources += [value for key, value in attrs if key in ("src", "href", "action")]
        if tag not in self.VOID or tag == "circle":
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        while self.stack and self.stack[-1] != tag and self.stack[-1] in self.VOID:
            self.stack.pop()
        if tag in self.VOID and (not self.stack or self.stack[-1] != tag):
            return
        assert self.stack and self.stack[-1] == tag, (tag, self.stack[-3:])
        self.stack.pop()


def test_page_is_one_sound_file(trial):
    path = write_report(trial.path)
    text = path.read_text()
    assert path.stat().st_size < 5_000_000
    page = Page(text)
    assert page.sources and all(source.startswith("data:") for source in page.sources)
    assert not re.search(r"https?://|@import|url\(", text)
    assert page.count["img"] == 12  # start, ten invocations, end
    for word in ("Success", "STAGNATED", "cartesian_reflex", "after outcome: 8 invocations left", "prefers-color-scheme: dark"):
        assert word in text
    assert text.count('class="row call"') == 10 and text.count('class="row replan"') == 1


def test_data_of_the_bag(data):
    assert [call.outcome for call in data.calls if not call.primitive].count("STAGNATED") == 1
    stalled = next(call for call in data.calls if call.outcome == "STAGNATED")
    assert stalled.samples[-1].verdict == "replan" and stalled.threshold == 0.9 and stalled.reason == "no_gain"
    assert [plan.generation for plan in data.plans] == [0, 1]
    assert [note.kind for note in data.notes if note.kind in ("fault", "cleared", "diagnostic")] == ["fault", "diagnostic", "cleared"]
    assert data.duration == pytest.approx(data.arm[-1].t, abs=0.05)


def test_projection_is_that_of_the_camera(trial, data):
    found = projector(data, trial.provenance["calibration"])
    for point in ([0.5, 0.0, 0.02], [0.45, 0.1, 0.02], [0.62, -0.12, 0.0]):
        assert found([point])[0] == pytest.approx(tuple(project([point])[0]), abs=1e-6)
    assert found([[2.0, 0.0, 0.5]]) == [None]  # behind the camera
    frames = key_frames(data, found)
    reach = frames[1]
    # The mark of "reach the red cube" lies where the camera sees the red cube.
    u, v = project([[0.45, 0.10, 0.02]])[0]
    assert f'class="aim" cx="{u:.0f}" cy="{v:.0f}"' in reach.overlay
    assert projector(data, {}) is None and all(frame.overlay == "" for frame in key_frames(data, None))


def test_rows_of_the_bag_equal_those_of_the_caller(trial):
    rows = invocations_of(trial.bag)
    keys = ("family", "instruction", "outcome", "reason", "chunks", "clips")
    assert [[row[k] for k in keys] for row in rows] == [[row[k] for k in keys] for row in trial.invocations]


def test_timeline_in_order_and_within_the_trial(data):
    rows = timeline(data)
    starts = [row.left for row in rows]
    assert starts == sorted(starts) and all(row.left >= 0 and row.left + row.width <= 100.01 for row in rows)
    plan = next(index for index, row in enumerate(rows) if row.kind == "plan")
    assert rows[plan - 1].kind == "primitive" and rows[plan + 1].label == "reach the red cube"


def test_verdict_marks(data):
    by_outcome = {call.outcome: progress_curve(call) for call in data.calls if not call.primitive}
    assert 'class="mark good"' in by_outcome["COMPLETED"] and 'class="mark warn"' in by_outcome["STAGNATED"]


def test_a_claim_is_no_success(tmp_path):
    text = render_report(make_trial(tmp_path, images=False, success=False))
    assert "Failure" in text and "the planner claimed success" in text and 'class="bad"' in text


def test_nothing_of_a_name_becomes_markup(tmp_path):
    text = render_report(make_trial(tmp_path, images=False, instruction='<script>alert("x")</script> & more'))
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    Page(text)


def test_without_images_and_with_a_cut_bag(tmp_path):
    trial = make_trial(tmp_path, images=False)
    assert "<img" not in render_report(trial)
    file = next(trial.bag.glob("*.mcap"))
    os.truncate(file, file.stat().st_size // 2)
    text = render_report(load_trial(trial.path))
    Page(text)
    assert "as far as it goes" in text and 'class="row call"' in text
    file.unlink()
    text = render_report(load_trial(trial.path))
    Page(text)
    assert "no .mcap file" in text


@pytest.mark.parametrize(("low", "high", "about"), [(0, 21.9, 8), (0.28, 0.72, 6), (0, 0.004, 4), (0, 900, 10)])
def test_ticks_are_round_and_inside(low, high, about):
    found = ticks(low, high, about)
    assert 2 <= len(found) <= 2 * about + 1 and all(low - 1e-9 <= t <= high + 1e-9 for t in found)
