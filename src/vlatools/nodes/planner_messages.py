"""Messages of the planner node: plans, events, ledger entries, feedback and results."""

from __future__ import annotations

import numpy as np
from vlatools_interfaces import msg as messages
from vlatools_interfaces.action import RunTask

from vlatools.agent.events import AgentEvent, LedgerEntry
from vlatools.agent.plan import PlanView, StepView
from vlatools.agent.result import TaskFeedback, TaskResult
from vlatools.nodes.convert import BASE_FRAME, VERDICTS, point_to_msg, to_json
from vlatools.nodes.stamps import Stamps


def plan_message(view: PlanView, task_id: str, stamps: Stamps) -> messages.Plan:
    """A plan as published on /planner/plan."""
    out = messages.Plan(task_id=task_id, instruction=view.instruction, generation=view.generation, current=view.current)
    out.header.stamp = stamps.to_ros(view.stamp_s)
    out.header.frame_id = BASE_FRAME
    out.steps = [_step_message(step) for step in view.steps]
    return out


def _step_message(step: StepView) -> messages.PlanStep:
    return messages.PlanStep(
        family=step.family,
        instruction=step.instruction,
        object=step.object,
        target=step.target,
        position=point_to_msg(None if step.position is None else np.asarray(step.position)),
        status=getattr(messages.PlanStep, step.status.value),
        attempts=step.attempts,
    )


def event_message(event: AgentEvent, task_id: str, stamps: Stamps) -> messages.AgentEvent:
    """An event as published on /planner/events."""
    out = messages.AgentEvent(
        task_id=task_id, kind=event.kind.value, message=event.message, data_json=to_json(event.data)
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
        verdict=VERDICTS[feedback.verdict],
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
        summary_json=to_json(result.table()),
    )
