"""Node ``planner``: the agent behind the action /run_task. A newer task preempts the one before."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rclpy.qos import DurabilityPolicy, QoSProfile
from vlatools_interfaces import msg as messages
from vlatools_interfaces.action import RunTask

from vlatools.agent.budget import TaskBudget
from vlatools.agent.config import AgentConfig
from vlatools.agent.events import AgentEvent, AgentNotice, LedgerEntry
from vlatools.agent.library import PlanLibrary
from vlatools.agent.planner import Planner
from vlatools.agent.runner import TaskRunner
from vlatools.config import config_root, find_config, load
from vlatools.core import CancelToken, Clock, ConfigError, Rejected
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.goals import GoalRunner, Slot
from vlatools.nodes.planner_messages import (
    event_message,
    feedback_message,
    ledger_message,
    plan_message,
    result_message,
)
from vlatools.nodes.ros_arm import RosArm
from vlatools.nodes.ros_observe import RosObserve
from vlatools.nodes.ros_tools import RosTools
from vlatools.shared_clock import lab_clock
from vlatools.trials.tasks import load_task

_PLANNERS: dict[str, Callable[[AgentConfig, Clock], Planner]] = {"library": PlanLibrary}
_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@dataclass(frozen=True)
class PlannerParams:
    """Parameters of the planner node."""

    planner: str = field(default="library", metadata={"help": "who plans: library"})
    config: str = field(default="planner.yaml", metadata={"help": "agent configuration file"})
    tasks: str = field(default="", metadata={"help": "folder of task files; empty means the shipped ones"})

    def __post_init__(self) -> None:
        if self.planner not in _PLANNERS:
            raise ConfigError(f"planner is '{self.planner}', known are {', '.join(_PLANNERS)}: choose one of them")


class PlannerNode(VlatoolsNode):
    """Serves /run_task; publishes /planner/plan (latched), /planner/events and /planner/ledger."""

    NAME = "planner"
    PARAMS = PlannerParams

    def __init__(self) -> None:
        super().__init__()
        config = load(AgentConfig, find_config(self.params.config))
        self._tasks = Path(self.params.tasks) if self.params.tasks else config_root() / "tasks"
        if not self._tasks.is_dir():
            raise ConfigError(f"planner: tasks is '{self._tasks}', there is no such folder: name one with task files")
        clock = lab_clock()
        self._config = config
        self._time = clock
        self._planner = _PLANNERS[self.params.planner](config, clock)
        self._arm = RosArm(self)
        self._tools = RosTools(self)
        self._observe = RosObserve(self)
        self._plan = self.create_publisher(messages.Plan, "/planner/plan", _LATCHED)
        self._events = self.create_publisher(messages.AgentEvent, "/planner/events", 50)
        self._ledger = self.create_publisher(messages.LedgerEntry, "/planner/ledger", 50)
        self._runner: GoalRunner[RunTask.Goal, RunTask.Result, RunTask.Feedback] = GoalRunner(
            self, RunTask, "/run_task", self._run, slot=Slot()
        )

    def _run(
        self, goal: RunTask.Goal, cancel: CancelToken, feedback: Callable[[RunTask.Feedback], None]
    ) -> RunTask.Result:
        """One task, in a worker thread."""
        instruction, budget = self._asked(goal)
        task_id = uuid.uuid4().hex[:12]
        runner = TaskRunner(
            self._planner,
            self._tools,
            self._observe,
            self._arm,
            self._time,
            self._config,
            lambda notice: self._publish(notice, task_id),
        )
        result = runner.run(instruction, budget, cancel, lambda news: feedback(feedback_message(news)))
        return result_message(result)

    def _asked(self, goal: RunTask.Goal) -> tuple[str, TaskBudget]:
        """Instruction and budget of a goal. Raises Rejected when there is no such task, or nothing is asked."""
        try:
            task = load_task(self._tasks, goal.task) if goal.task else None
            budget = task.budget if task is not None else TaskBudget()
            if goal.time_limit:
                budget = replace(budget, time_limit_s=goal.time_limit)
        except ConfigError as error:
            raise Rejected("bad_task", str(error)) from error
        instruction = goal.instruction or (task.instruction if task is not None else "")
        if not instruction.strip():
            raise Rejected("bad_argument", "neither instruction nor task is given: give one of them")
        return instruction, budget

    def _publish(self, notice: AgentNotice, task_id: str) -> None:
        if isinstance(notice, AgentEvent):
            self._events.publish(event_message(notice, task_id, self.stamps))
        elif isinstance(notice, LedgerEntry):
            self._ledger.publish(ledger_message(notice, task_id, self.stamps))
        else:
            self._plan.publish(plan_message(notice, task_id, self.stamps))


def main() -> int:
    """Entry point of the node's process."""
    return run_node(PlannerNode)


if __name__ == "__main__":
    raise SystemExit(main())
