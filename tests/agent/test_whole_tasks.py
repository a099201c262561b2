"""Whole tasks in the lock-step simulation: the same agent, tools, policy and arm as on the robot, judged by truth."""

from __future__ import annotations

import pytest

from benchmarks.trials_lockstep import run_trial
from vlatools.config import config_root
from vlatools.trials.tasks import load_task

TASKS = config_root() / "tasks"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "calls"), [("simple", 8), ("conditioned", 12), ("long", 24)])
def test_a_task_is_done_with_the_paper_s_number_of_invocations(name: str, calls: int) -> None:
    row = run_trial(load_task(TASKS, name), seed=1001, disturb="none", verbose=False)
    assert row["success"], row["verdict"]
    assert (row["verified"], row["invocations"], row["replans"]) == (True, calls, 0)


@pytest.mark.slow
@pytest.mark.parametrize("disturb", ["teleport_grasp", "drop_move", "shift_bowl"])
def test_a_disturbed_task_is_finished(disturb: str) -> None:
    row = run_trial(load_task(TASKS, "simple"), seed=1000, disturb=disturb, verbose=False)
    assert row["disturbed"]
    assert row["success"], row["verdict"]
