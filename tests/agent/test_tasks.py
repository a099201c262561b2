"""Task files: complete, consistent with what the plan library understands, and refused with the key when wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlatools.agent.budget import TaskBudget
from vlatools.agent.language import parse
from vlatools.core import ConfigError
from vlatools.trials.tasks import load_task, task_names

TASKS = Path(__file__).parents[2] / "config" / "tasks"


def test_the_three_tasks_of_the_paper_have_its_time_limits() -> None:
    assert set(task_names(TASKS)) >= {"simple", "conditioned", "long"}
    limits = {name: load_task(TASKS, name).budget.time_limit_s for name in ("simple", "conditioned", "long")}
    assert limits == {"simple": 60, "conditioned": 60, "long": 120}


@pytest.mark.parametrize("name", task_names(TASKS))
def test_every_task_is_understood(name: str) -> None:
    assert parse(load_task(TASKS, name).instruction)


def test_an_unknown_task_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no task 'smple'.*simple"):
        load_task(TASKS, "smple")


def test_a_wrong_key_is_named(tmp_path: Path) -> None:
    text = (TASKS / "simple.yaml").read_text()
    (tmp_path / "simple.yaml").write_text(text.replace("max_replans", "max_replan"))
    with pytest.raises(ConfigError, match="max_replan"):
        load_task(tmp_path, "simple")
    (tmp_path / "other.yaml").write_text(text)
    with pytest.raises(ConfigError, match="must equal the file's name"):
        load_task(tmp_path, "other")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("time_limit_s", 0.0),
        ("attempts_per_step", 0),
        ("max_replans", -1),
        ("max_invocations", 0),
        ("no_progress_s", float("nan")),
    ],
)
def test_budgets_out_of_range_are_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=key):
        TaskBudget(**{key: value})  # type: ignore[arg-type]
