"""Node ``planner``: the agent behind the action /run_task. A newer task preempts the one before."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geometry_msgs.msg import Point
from rclpy.qos import DurabilityPolicy, QoSProfile
from vlatools_interfaces import msg as messages
from vlatools_interfaces.action import RunTask

from vlatools.agent.budget import TaskBudget
from vlatools.agent.config import AgentConfig
from vlatools.agent.events import AgentEvent, AgentNotice, LedgerEntry
from vlatools.agent.library import PlanLibrary
from vlatools.agent.plan import PlanView, StepView
from vlatools.agent.planner import Planner
from vlatools.agent.result import TaskFeedback, TaskResult
from vlatools.agent.runner import TaskRunner
from vlatools.config import config_root, find_config, load
from vlatools.core import CancelToken, Clock, ConfigError, MonotonicClock, Rejected, Verdict
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.goals import GoalRunner, Slot
from vlatools.nodes.stamps import Stamps
from vlatools.trials.tasks import load_task

_PLANNERS: dict[str, Callable[[AgentConfig, Clock], Planner]] = {"library": PlanLibrary}
_VERDICTS = {
    Verdict.CONTINUE: messages.ToolProgress.CONTINUE,
    Verdict.ADVANCE: messages.ToolProgress.ADVANCE,
    Verdict.REPLAN: messages.ToolProgress.REPLAN,
    Verdict.TIMEOUT: messages.ToolProgress.TIMEOUT,
}
_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@dataclass(frozen=True)
class PlannerParams:
    """Parameters of the planner node."""

    planner: str = field(default="library", metadata={"help": "who plans: library"})
    config: str = field(default="planner.yaml", metadata={"help": "agent configuration"})
    tasks: str = field(default="", metadata={"help": "folder with task files; empty means the shipped ones"})

    def __post_init__(self) -> None:
        if self.planner not in _PLANNERS:
            raise ConfigError(f"planner is '{self.planner}', known are {', '.join(_PLANNERS)}: choose one of them")


def plan_message(view: PlanView, task_id: str, stamps: Stamps) -> messages.Plan:
    """A plan as published on /planner/plan."""
    out = messages.Plan(
        task_id=task_id, instruction=view.instruction, generation=view.generation, current=view.current
    )
    out.header.stamp = stamps.to_ros(view.stamp_s)
    out.header.frame_id = "fr3_link0"
    out.steps = [_step_message(step) for step in view.steps]
    return out


def _step_message(step: StepView) -> messages.PlanStep:
    x, y, z = step.position if step.position is not None else (math.nan,) * 3
    return messages.PlanStep(
        family=step.family,
        instruction=step.instruction,
        object=step.object,
        target=step.target,
        position=Point(x=float(x), y=float(y), z=float(z)),
        status=getattr(messages.PlanStep, step.status.value),
        attempts=step.attempts,
    )


def event_message(event: AgentEvent, task_id: str, stamps: Stamps) -> messages.AgentEvent:
    """An event as published on /planner/events."""
    out = messages.AgentEvent(
        task_id=task_id, kind=event.kind.value, message=event.message, data_json=json.dumps(event.data, default=str)
    )
    out.header.stamp = stamps.to_ros(event.stamp_s)
    return out


def ledger_message(entry: LedgerEntry, task_id: str, stamps: Stamps) -> messages.LedgerEntry:
    """A planner call as published on /planner/ledger."""
    out = messages.LedgerEntry(
        task_id=task_id,
        model=entry.model,
        input_tokens=entry.input_tokens,
        cached_input_tokens=entry.cached_input_tokens,
        output_tokens=entry.output_tokens,
        cost_usd=entry.cost_usd,
        latency=entry.latency_s,
    )
    out.header.stamp = stamps.to_ros(entry.stamp_s)
    return out


def feedback_message(feedback: TaskFeedback) -> RunTask.Feedback:
    """Feedback of /run_task."""
    return RunTask.Feedback(
        current=feedback.current,
        total=feedback.total,
        family=feedback.family,
        instruction=feedback.instruction,
        progress=float(feedback.progress),
        verdict=_VERDICTS[feedback.verdict],
        elapsed=float(feedback.elapsed_s),
    )


def result_message(result: TaskResult) -> RunTask.Result:
    """Result of /run_task."""
    return RunTask.Result(
        outcome=result.outcome.value,
        reason=result.reason,
        message=result.message,
        claimed=result.claimed,
        verified=result.verified,
        duration=float(result.duration_s),
        invocations=len(result.records),
        replans=result.replans,
        model_calls=result.model_calls,
        summary_json=json.dumps(result.table()),
    )
