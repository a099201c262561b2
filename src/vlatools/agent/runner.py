"""Runs a whole instruction: plan, invoke, check, mend, until it is done, given up, canceled or out of time."""

from __future__ import annotations

from collections.abc import Callable

from vlatools.agent.breaker import TaskEnded
from vlatools.agent.budget import TaskBudget
from vlatools.agent.config import AgentConfig
from vlatools.agent.events import AgentEvent, AgentNotice, EventKind
from vlatools.agent.planner import Planner
from vlatools.agent.ports import AgentArm, Observe, Tools
from vlatools.agent.result import TaskFeedback, TaskResult
from vlatools.agent.task_run import TaskRun
from vlatools.core import ArmFault, CancelToken, Clock, Outcome, Rejected, StaleData


class TaskRunner:
    """Runs one task at a time. The planner is asked once, and again only on events; every exit has a reason."""

    def __init__(
        self,
        planner: Planner,
        tools: Tools,
        observe: Observe,
        arm: AgentArm,
        clock: Clock,
        config: AgentConfig,
        events: Callable[[AgentNotice], None] = lambda notice: None,
    ) -> None:
        """``events`` receives every AgentEvent, PlanView and LedgerEntry as it happens; it must not raise."""
        self._planner = planner
        self._tools = tools
        self._observe = observe
        self._arm = arm
        self._clock = clock
        self._config = config
        self._events = events

    def run(
        self,
        instruction: str,
        budget: TaskBudget,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[TaskFeedback], None] | None = None,
    ) -> TaskResult:
        """Run ``instruction`` to its end. Never raises: whatever happens is in the result.

        After a cancel or preemption no further invocation is issued; CANCELED and PREEMPTED are reported only when
        the arm was measured to stand still.
        """
        run = TaskRun(
            self._planner,
            self._tools,
            self._observe,
            self._arm,
            self._clock,
            self._config,
            self._events,
            instruction,
            budget,
            cancel or CancelToken(),
            on_feedback,
        )
        try:
            return run.execute()
        except TaskEnded as end:
            return run.finish(end)
        except Rejected as error:
            return run.finish(TaskEnded(Outcome.REJECTED, error.reason, str(error)))
        except StaleData as error:
            return run.finish(TaskEnded(Outcome.STALE_OBSERVATION, f"stale_{error.source}", str(error)))
        except ArmFault as error:
            return run.finish(TaskEnded(Outcome.FAULT, error.reason, str(error)))
        except Exception as error:  # a broken planner or tool must not leave the caller without an answer
            message = f"{type(error).__name__}: {error}"
            self._events(AgentEvent(EventKind.ERROR, self._clock.now(), message))
            return run.finish(TaskEnded(Outcome.FAULT, "internal_error", message))
