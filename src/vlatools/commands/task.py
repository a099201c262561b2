"""Runs one task on a running graph: record, ask the planner, watch, end the recording. Shared by demo, run and benchmarks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlatools.core import Outcome, StaleData
from vlatools.nodes.graph_client import GraphClient
from vlatools.trials.judge import Verdict

_POLL_S = 0.1
_END_S = 20.0
_SILENCE_S = 30.0  # a planner at work reports far more often; the longest look takes 16 s


@dataclass(frozen=True)
class TaskEnd:
    """How a task ended.

    Attributes:
        outcome, reason, message: of /run_task.
        claimed: the planner claims success; verified: perception agrees.
        duration_s, invocations, replans: of the task.
        verdict: of the judge, None without one.
        folder: trial folder, None when nothing was recorded.
        recording: what the recorder said at the end, "" if all is well.
        table: one row an invocation.
    """

    outcome: Outcome
    reason: str
    message: str
    claimed: bool
    verified: bool
    duration_s: float
    invocations: int
    replans: int
    verdict: Verdict | None = None
    folder: Path | None = None
    recording: str = ""
    table: tuple[dict[str, Any], ...] = field(default=())

    @property
    def success(self) -> bool:
        """By the judge where there is one, else completed and confirmed by perception."""
        if self.verdict is not None:
            return bool(self.verdict.value)
        return self.outcome is Outcome.COMPLETED and self.verified


def perform(
    client: GraphClient,
    instruction: str,
    *,
    task: str = "",
    seed: int = -1,
    time_limit_s: float = 0.0,
    record: bool = True,
    stop: threading.Event | None = None,
    on_tick: Callable[[], None] = lambda: None,
    judge: Callable[[bool], Verdict] | None = None,
) -> TaskEnd:
    """Run an instruction to its end.

    Args:
        client: of the running graph.
        instruction: the user's goal.
        task: task whose budgets apply.
        seed: scene seed, -1 on the real robot.
        time_limit_s: 0 means the task's limit.
        record: make a trial.
        stop: cancels the task when set.
        on_tick: called ten times a second.
        judge: called with the planner's claim after the end; gives the verdict.

    Raises:
        StaleData: the recorder or the planner does not answer.
    """
    client.seen.plan = client.seen.progress = client.seen.event = None
    folder = _start(client, instruction, task, seed) if record else None
    call = client.run_task(instruction, task, time_limit_s)
    canceled_ticks = 0
    while not call.wait(_POLL_S):
        on_tick()
        if time.monotonic() - call.heard_s > _SILENCE_S:  # it died; a new one knows nothing of this goal
            call.cancel()
            break
        if stop is not None and stop.is_set():
            call.cancel()
            canceled_ticks += 1
            if canceled_ticks * _POLL_S > _END_S:
                break
    on_tick()
    result = call.result
    if result is None or not result.outcome:
        outcome, reason = Outcome.FAULT, "planner_lost"
        message = "the planner gave no result and was silent: it has died; see its log, then run the task again"
    else:
        outcome, reason, message = Outcome(result.outcome), result.reason, result.message
    claimed = bool(result is not None and result.claimed)
    verdict = judge(claimed) if judge is not None else None
    table = tuple(json.loads(result.summary_json)) if result is not None and result.summary_json else ()
    return TaskEnd(
        outcome=outcome,
        reason=reason,
        message=message,
        claimed=claimed,
        verified=bool(result is not None and result.verified),
        duration_s=float(result.duration) if result is not None else 0.0,
        invocations=int(result.invocations) if result is not None else 0,
        replans=int(result.replans) if result is not None else 0,
        verdict=verdict,
        folder=folder,
        recording=_stop(client, outcome, message, claimed, verdict, result, table) if record else "",
        table=table,
    )


def _start(client: GraphClient, instruction: str, task: str, seed: int) -> Path:
    response = client.start_recording(instruction, task, seed)
    if not response.success:
        raise StaleData("recorder", 0.0, 0.0, f"it did not start: {response.message}")
    return Path(response.folder)


def _stop(
    client: GraphClient,
    outcome: Outcome,
    message: str,
    claimed: bool,
    verdict: Verdict | None,
    result: Any,
    table: tuple[dict[str, Any], ...],
) -> str:
    """End the recording; what is wrong with it, "" if nothing."""
    report = {
        "claimed": claimed,
        "verified": bool(result is not None and result.verified),
        "verdicts": [verdict.as_dict()] if verdict is not None else [],
        "invocations": list(table),
        "replans": int(result.replans) if result is not None else 0,
        "model_calls": int(result.model_calls) if result is not None else 0,
    }
    try:
        response = client.stop_recording(outcome.value, message, json.dumps(report))
    except StaleData as error:
        return str(error)
    return "" if response.success else str(response.message)
