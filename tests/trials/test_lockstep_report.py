"""A report of a real trial: the stack in lock-step, a cube taken away in the first grasp, recorded with the nodes' messages."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from tests.trials.lockstep_trial import run_trial, teleport_during_first_grasp
from vlatools.trials.bag_info import bag_info
from vlatools.trials.record import begin_trial, end_trial, recording_entry
from vlatools.trials.report import render_report
from vlatools.trials.report_data import read_trial_data
from vlatools.trials.report_frames import projector


@pytest.mark.slow
def test_report_of_a_recovered_failure(tmp_path):
    now = datetime.now(timezone.utc)
    trial = begin_trial(tmp_path, "put them there", "simple", 3, now)
    check, result, verdict, calibration = run_trial(trial.bag, "simple", 3, teleport_during_first_grasp, image_hz=1.0)
    assert check.ok and verdict.value is True and result.replans >= 1
    trial = replace(trial, provenance={"calibration": calibration})
    entry = recording_entry(check, bag_info(trial.bag), {"/arm/state": 25.0})
    assert entry["rates"]["/arm/state"]["met"]
    judged = {"claimed": result.claimed, "verdicts": [verdict.as_dict()], "invocations": result.table()}
    trial = end_trial(trial, now + timedelta(seconds=result.duration_s), str(result.outcome), result.message, judged, entry)
    data = read_trial_data(trial.bag)
    calls = [call for call in data.calls if not call.primitive]
    assert [call.outcome for call in calls] == [row["outcome"] for row in result.table()]
    assert all(call.samples for call in calls) and len(data.plans) == 1 + result.replans
    # The camera's picture and the projection agree: the red cube's pixel is red at the start.
    project = projector(data, calibration)
    u, v = project([data.scenes[0][1]["red cube"]])[0]
    import cv2
    import numpy as np

    image = cv2.imdecode(np.frombuffer(data.frames[0][1], np.uint8), cv2.IMREAD_COLOR)
    blue, green, red = (int(c) for c in image[round(v), round(u)])
    assert red > 100 and red > 2 * max(green, blue)
    page = render_report(trial)
    assert "Success" in page and "STAGNATED" in page and page.count('class="row replan"') == result.replans
