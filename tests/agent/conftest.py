"""Shared parts of the agent's tests."""

from __future__ import annotations

import pytest

from tests.agent.fake_world import FakeWorld, RunTask
from vlatools.agent.budget import TaskBudget
from vlatools.agent.config import AgentConfig
from vlatools.agent.events import AgentNotice
from vlatools.agent.library import PlanLibrary
from vlatools.agent.planner import Planner
from vlatools.agent.result import TaskResult
from vlatools.agent.runner import TaskRunner
from vlatools.core import CancelToken


@pytest.fixture
def run_task() -> RunTask:
    """Run an instruction on a fake world; notices land in ``notices``."""

    def run(
        world: FakeWorld,
        instruction: str,
        budget: TaskBudget | None = None,
        planner: Planner | None = None,
        cancel: CancelToken | None = None,
        notices: list[AgentNotice] | None = None,
        on_feedback: object = None,
        config: AgentConfig | None = None,
    ) -> TaskResult:
        settings = config or AgentConfig()
        runner = TaskRunner(
            planner or PlanLibrary(settings, world.clock),
            world,
            world.observe,
            world,
            world.clock,
            settings,
            (lambda notice: None) if notices is None else notices.append,
        )
        return runner.run(instruction, budget or TaskBudget(), cancel, on_feedback)  # type: ignore[arg-type]

    return run
