"""How a running task speaks: events, plan views, feedback. Nothing here decides anything."""

from __future__ import annotations

from collections.abc import Callable

from vlatools.agent.effects import EffectCheck
from vlatools.agent.events import AgentEvent, AgentNotice, EventKind, LedgerEntry
from vlatools.agent.memory import Memory
from vlatools.agent.plan import PlanView, StepStatus, StepView
from vlatools.agent.result import TaskFeedback
from vlatools.agent.state import AgentState
from vlatools.core import Clock, Feedback, Invocation, Verdict


class Voice:
    """The one outlet of a task."""

    def __init__(
        self,
        clock: Clock,
        events: Callable[[AgentNotice], None],
        on_feedback: Callable[[TaskFeedback], None] | None,
    ) -> None:
        self._clock = clock
        self._events = events
        self._on_feedback = on_feedback
        self._start_s = clock.now()
        self._current = 0
        self._total = 0

    def tell(self, kind: EventKind, message: str, **data: object) -> None:
        """An event."""
        self._events(AgentEvent(kind, self._clock.now(), message, data))

    def observed(self, memory: Memory) -> None:
        """What is seen now."""
        objects = {item.id: [round(float(v), 4) for v in item.position] for item in memory.objects if item.visible}
        self.tell(EventKind.OBSERVED, f"seen: {memory.describe()}", objects=objects)

    def checked(self, judged: EffectCheck) -> None:
        """A judged effect."""
        self.tell(
            EventKind.EFFECT_CHECKED,
            f"{judged.effect}: {judged.truth.value} ({judged.message})",
            truth=judged.truth.value,
            **judged.values,
        )

    def cost(self, cost: LedgerEntry) -> None:
        """What a planner call cost."""
        self._events(cost)
        self.tell(
            EventKind.MODEL_CALL,
            f"{cost.model} answered after {cost.latency_s:.2f} s",
            input_tokens=cost.input_tokens,
            output_tokens=cost.output_tokens,
        )

    def plan(self, state: AgentState, left: tuple[StepView, ...]) -> None:
        """The plan: what was done, then what runs or failed, then what is left."""
        steps = (*state.steps_done, *left)
        self._current, self._total = len(state.steps_done), len(steps)
        self._events(PlanView(self._clock.now(), state.instruction, state.generation, self._current, steps))
        if left and left[0].status is StepStatus.RUNNING:
            self._report(left[0].family, left[0].instruction, 0.0, Verdict.CONTINUE)

    def feedback(self, invocation: Invocation) -> Callable[[Feedback], None]:
        """A listener that passes an invocation's progress on as the task's feedback."""

        def report(feedback: Feedback) -> None:
            self._report(
                str(invocation.family), invocation.instruction, feedback.sample.smoothed, feedback.sample.verdict
            )

        return report

    def _report(self, family: str, instruction: str, progress: float, verdict: Verdict) -> None:
        if self._on_feedback is not None:
            elapsed = self._clock.now() - self._start_s
            self._on_feedback(TaskFeedback(self._current, self._total, family, instruction, progress, verdict, elapsed))
