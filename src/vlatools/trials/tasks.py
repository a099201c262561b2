"""A task: what is asked, in which scene, within which limits, and what its success is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vlatools.agent.budget import TaskBudget
from vlatools.config import load
from vlatools.core import ConfigError
from vlatools.trials.success import SuccessSpec


@dataclass(frozen=True)
class TaskConfig:
    """One file of config/tasks.

    Attributes:
        name: equals the file's name without its ending.
        instruction: the user's goal.
        scene: name of the simulated scene (config/scenes), for trials in simulation.
        success: what the judge measures; never seen by the planner.
        budget: time limit, attempts, replans, invocations.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    name: str
    instruction: str
    scene: str
    success: SuccessSpec
    budget: TaskBudget = field(default_factory=TaskBudget)

    def __post_init__(self) -> None:
        for key in ("name", "instruction", "scene"):
            if not getattr(self, key).strip():
                raise ConfigError(f"{key} of the task is empty: fill it in")


def load_task(folder: Path, name: str) -> TaskConfig:
    """The task of that name.

    Raises:
        ConfigError: there is no such file (the message lists those there are), or it is wrong.
    """
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(task_names(folder)) or "none"
        raise ConfigError(f"there is no task '{name}' in {folder}: known are {known}")
    task = load(TaskConfig, path)
    if task.name != name:
        raise ConfigError(f"{path}: name is '{task.name}', it must equal the file's name '{name}'")
    return task


def task_names(folder: Path) -> tuple[str, ...]:
    """Names of the tasks in a folder, sorted."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))
