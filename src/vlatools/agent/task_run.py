"""One run of one instruction: the loop of invoking, checking and mending. Owned by TaskRunner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vlatools.agent.breaker import Breaker, Key, TaskEnded
from vlatools.agent.budget import TaskBudget
from vlatools.agent.config import AgentConfig
from vlatools.agent.deadline import DeadlineToken
from vlatools.agent.effects import EffectCheck, Truth
from vlatools.agent.events import AgentNotice, EventKind
from vlatools.agent.plan import Stage, Step, StepStatus, StepView
from vlatools.agent.planner import Planner, PlannerReply, ReplanEvent, Trigger
from vlatools.agent.ports import AgentArm, Observe, Tools
from vlatools.agent.recovery import ArmKeeper
from vlatools.agent.result import TaskFeedback, TaskResult
from vlatools.agent.situation import UNKNOWN_OBJECT, Situation
from vlatools.agent.state import CallRecord
from vlatools.agent.voice import Voice
from vlatools.core import CancelToken, Clock, Family, InvocationResult, Outcome, Rejected

_BUSY = frozenset({"busy", "not_ready", "recovering"})
_BUSY_PAUSE_S = 0.5
_LOOKS = 3  # for an object that has gone from view


class _Problem(Exception):
    """A step or stage did not do what it should: the planner is asked again."""

    def __init__(self, trigger: Trigger, message: str, key: Key, lost_s: float) -> None:
        super().__init__(message)
        self.trigger = trigger
        self.message = message
        self.key = key
        self.lost_s = lost_s


class TaskRun:
    """State and loop of one task. ``execute`` returns, or raises TaskEnded, Rejected, StaleData or ArmFault."""

    def __init__(
        self,
        planner: Planner,
        tools: Tools,
        observe: Observe,
        arm: AgentArm,
        clock: Clock,
        config: AgentConfig,
        events: Callable[[AgentNotice], None],
        instruction: str,
        budget: TaskBudget,
        cancel: CancelToken,
        on_feedback: Callable[[TaskFeedback], None] | None,
    ) -> None:
        self._planner = planner
        self._tools = tools
        self._clock = clock
        self._config = config
        self._instruction = instruction
        self._budget = budget
        self._start_s = clock.now()
        self._voice = Voice(clock, events, on_feedback)
        self._cancel = DeadlineToken(cancel, clock, self._start_s + budget.time_limit_s)
        self._keeper = ArmKeeper(arm, clock, config, self._cancel, self._guard)
        self._now = Situation(observe, self._keeper, config, self._voice, self._guard)
        self._breaker = Breaker(budget)
        self._model_calls = 0
        self._checks: tuple[EffectCheck, ...] = ()

    # ---- the loop

    def execute(self) -> TaskResult:
        """Run to the end."""
        self._begin()
        while True:
            self._guard()
            if not self._now.state.plan.stages:
                if self._finished():
                    return self.finish(self._verdict())
                continue
            stage = self._now.state.plan.stages[0]
            try:
                if stage.steps:
                    self._perform(stage, stage.steps[0])
                else:
                    self._conclude(stage)
            except _Problem as problem:
                self._mend(problem)

    def finish(self, end: TaskEnded) -> TaskResult:
        """The result, after voiding the plan; the last events are sent here, on every way out."""
        if self._now.void():
            self._show()
        outcome, reason, message = end.outcome, end.reason, end.message
        if outcome in (Outcome.CANCELED, Outcome.PREEMPTED) and not self._keeper.standstill():
            outcome, reason = Outcome.FAULT, "stop_unconfirmed"
            message = f"{message}; the arm was not measured to stand still within {self._config.standstill_wait_s:g} s"
        verified = bool(self._checks) and all(item.truth is Truth.TRUE for item in self._checks)
        result = TaskResult(
            outcome=outcome,
            reason=reason,
            message=message,
            claimed=end.claimed,
            verified=verified and outcome is Outcome.COMPLETED,
            duration_s=self._clock.now() - self._start_s,
            records=self._now.history,
            replans=self._breaker.replans,
            model_calls=self._model_calls,
            checks=self._checks,
        )
        kind = EventKind.FINISHED if outcome is Outcome.COMPLETED else EventKind.GAVE_UP
        self._voice.tell(
            kind, message, outcome=str(outcome), reason=reason, claimed=end.claimed, verified=result.verified
        )
        return result

    def _guard(self) -> None:
        """End the task when it was canceled, preempted or is out of time; nothing of its plan follows."""
        if not self._cancel.canceled:
            return
        if self._now.void():
            self._show()
        reason = self._cancel.reason
        if reason == DeadlineToken.DEADLINE:
            limit = self._budget.time_limit_s
            raise TaskEnded(Outcome.TIMEOUT, "time_limit", f"the task's time limit of {limit:g} s is over")
        if reason == CancelToken.PREEMPT:
            raise TaskEnded(Outcome.PREEMPTED, "preempted", "a newer task took over")
        raise TaskEnded(Outcome.CANCELED, "canceled", "the task was canceled")

    # ---- start and end

    def _begin(self) -> None:
        self._now.begin(self._instruction)
        try:
            reply = self._ask(lambda: self._planner.plan(self._now.state))
        except Rejected as error:
            if error.reason not in ("unknown_object", "ambiguous"):
                raise
            # The arm may hide something: look once more from home before refusing.
            self._keeper.home()
            self._now.begin(self._instruction)
            reply = self._ask(lambda: self._planner.plan(self._now.state))
        self._now.state = self._now.state.replanned(reply.stages)
        self._go_on_from_held()
        self._voice.tell(
            EventKind.PLANNED,
            f"{len(self._now.state.plan.steps)} invocations: " + "; ".join(stage.text for stage in reply.stages),
            generation=self._now.state.generation,
            steps=[step.instruction for step in self._now.state.plan.steps],
        )
        self._show()

    def _go_on_from_held(self) -> None:
        """A task that starts with something in the gripper: go on with it if it is what the plan begins with."""
        if not self._now.state.arm.gripper_holding:
            return
        held = self._now.nearest_to_gripper()
        stages = self._now.state.plan.stages
        if not stages or stages[0].object != held:
            raise Rejected(
                "gripper_occupied",
                f"the gripper holds {held if held != UNKNOWN_OBJECT else 'something'}, which the task does not begin "
                "with: take it out first (/primitives/release)",
            )
        steps = tuple(s for s in stages[0].steps if s.family not in (Family.REACH, Family.GRASP))
        plan = replace(self._now.state.plan, stages=(replace(stages[0], steps=steps), *stages[1:]))
        self._now.state = replace(self._now.state, plan=plan, held=held)

    def _finished(self) -> bool:
        """Look once more at what must be so in the end; True when the task ends, False when there is more to do."""
        self._keeper.retreat()
        self._now.look()
        lasting = self._now.state.lasting()
        self._checks = tuple(self._now.judge(stage.effect) for stage in lasting if stage.effect is not None)
        if any(item.truth is Truth.UNKNOWN for item in self._checks):
            self._keeper.home()
            self._now.look()
            self._checks = tuple(self._now.judge(stage.effect) for stage in lasting if stage.effect is not None)
        for item in self._checks:
            self._voice.checked(item)
        failed = [item for item in self._checks if item.truth is Truth.FALSE]
        if not failed:
            return True
        first = failed[0]
        key = ("final", first.effect.object, first.effect.target)
        self._mend(_Problem(Trigger.FINAL_CHECK, first.message, key, 0.0), safe=False)
        return not self._now.state.plan.stages

    def _verdict(self) -> TaskEnded:
        unsure = [item for item in self._checks if item.truth is not Truth.TRUE]
        if self._checks and not unsure and len(self._checks) == len(self._now.state.lasting()):
            effects = ", ".join(str(item.effect) for item in self._checks)
            return TaskEnded(Outcome.COMPLETED, "", f"done and seen: {effects}", claimed=True)
        message = unsure[0].message if unsure else "the planner names no effect that could be checked"
        return TaskEnded(
            Outcome.STAGNATED, "not_verified", f"the planner claims to be done, but: {message}", claimed=True
        )

    # ---- one step

    def _perform(self, stage: Stage, step: Step) -> None:
        if step.family is Family.REACH:
            self._keeper.open_if_narrow()
        else:
            self._keeper.wait_ready()
        result, started_s = self._invoke(stage, step)
        problem = self._accept(step, result)
        verdict = problem.message if problem is not None else "ok"
        self._now.state = self._now.state.called(CallRecord(started_s, result, verdict, stage.text))
        if problem is not None:
            raise problem
        self._now.state = self._now.state.stepped(self._view(step, StepStatus.DONE))
        self._show()

    def _invoke(self, stage: Stage, step: Step) -> tuple[InvocationResult, float]:
        """Issue the step; while the arm is busy, wait and issue it again, until the patience is over."""
        while True:
            self._guard()
            self._breaker.invoke(step.key, step.instruction)
            invocation = self._now.ground(step)
            started_s = self._clock.now()
            self._voice.tell(EventKind.INVOKED, invocation.instruction, id=invocation.id, family=str(invocation.family))
            self._show(StepStatus.RUNNING)
            result = self._tools.invoke(invocation, self._cancel, self._voice.feedback(invocation))
            self._voice.tell(
                EventKind.RETURNED,
                f"{invocation.instruction}: {result.outcome} {result.message}".strip(),
                id=invocation.id,
                outcome=str(result.outcome),
                reason=result.reason,
                progress=float(result.progress),
                duration=float(result.duration_s),
            )
            if self._cancel.canceled:
                self._now.state = self._now.state.called(CallRecord(started_s, result, "canceled", stage.text))
                if result.outcome is Outcome.FAULT:  # e.g. stop_unconfirmed: the cancel must not hide it
                    raise TaskEnded(Outcome.FAULT, result.reason, result.message)
                self._guard()
            if result.outcome is not Outcome.REJECTED or result.reason not in _BUSY:
                return result, started_s
            if self._keeper.patience_s <= 0:
                raise TaskEnded(Outcome.REJECTED, result.reason, f"waited for the arm in vain: {result.message}")
            self._keeper.pause(min(_BUSY_PAUSE_S, self._keeper.patience_s))
            self._keeper.wait_ready()

    def _accept(self, step: Step, result: InvocationResult) -> _Problem | None:
        """Judge the step by its outcome and its effect; None when it is accepted."""
        if result.outcome is Outcome.PREEMPTED:
            raise TaskEnded(Outcome.PREEMPTED, "preempted", f"'{step.instruction}' was taken over by another goal")
        if result.outcome is Outcome.CANCELED:
            raise TaskEnded(Outcome.CANCELED, "canceled", f"'{step.instruction}' was canceled by someone else")
        if result.outcome is not Outcome.COMPLETED:
            trigger = Trigger(result.outcome.value.lower())
            message = f"'{step.instruction}' ended {result.outcome}: {result.message}"
            return _Problem(trigger, message, step.key, result.duration_s)
        if step.effect is None:
            return None
        judged = self._now.judge_step(step.effect)
        self._voice.checked(judged)
        if step.family is Family.GRASP and judged.truth is Truth.TRUE:
            self._now.state = replace(self._now.state, held=step.object)
        if judged.truth is Truth.FALSE:
            message = f"'{step.instruction}' was reported complete, but {judged.message}"
            return _Problem(Trigger.STEP_CHECK, message, step.key, result.duration_s)
        return None

    # ---- one stage

    def _conclude(self, stage: Stage) -> None:
        """All steps are done: is the goal's effect there? If it cannot be seen, retreat and look again."""
        judged: EffectCheck | None = None
        if stage.effect is not None:
            judged = self._now.judge_stage(stage.effect)
            self._voice.checked(judged)
            if judged.truth is Truth.FALSE:
                last = ("release", stage.object, stage.place.target if stage.place is not None else "")
                raise _Problem(Trigger.STAGE_CHECK, f"'{stage.text}' is not reached: {judged.message}", last, 0.0)
        self._now.state = self._now.state.reached()
        if stage.lasting:  # only a goal of the instruction counts as progress, and clears what was held against it
            self._breaker.progress(stage.object)

    # ---- mending

    def _mend(self, problem: _Problem, *, safe: bool = True) -> None:
        """Count the failure, bring arm and gripper into a safe state, look, and ask the planner for what remains."""
        self._breaker.fail(problem.key, problem.lost_s)
        failures = self._breaker.failures(problem.key)
        self._show(StepStatus.FAILED)
        self._voice.tell(EventKind.ERROR, problem.message, trigger=problem.trigger.value, failures=failures)
        self._breaker.replan(problem.message)
        if safe:
            self._make_safe(again=failures > 1)
        event = ReplanEvent(problem.trigger, problem.message, self._breaker.exhausted)
        try:
            reply = self._ask(lambda: self._planner.replan(self._now.state, event))
        except Rejected as error:
            self._guard()
            raise TaskEnded(Outcome.STAGNATED, error.reason, str(error)) from error
        self._now.state = self._now.state.replanned(reply.stages)
        self._voice.tell(
            EventKind.REPLANNED,
            f"after {problem.trigger.value}: {len(self._now.state.plan.steps)} invocations left",
            generation=self._now.state.generation,
            steps=[step.instruction for step in self._now.state.plan.steps],
        )
        self._show()

    def _make_safe(self, again: bool) -> None:
        """Out of the way with what is wanted in the gripper, or with an open gripper; then look."""
        wanted = self._now.state.plan.stages[0].object if self._now.state.plan.stages else ""
        if self._keeper.wait_ready().gripper_holding:
            self._now.look()
            self._drop_unwanted(wanted)  # here, where it was taken, rather than from high up
        self._keeper.open_if_narrow()
        if again:
            self._keeper.home()
        else:
            self._keeper.retreat()
        self._now.look()
        if self._drop_unwanted(wanted):
            self._now.look()
        if self._now.state.arm.gripper_holding:
            return
        if not self._now.sees(wanted) and not again:
            self._keeper.home()
        for _ in range(_LOOKS):
            if self._now.sees(wanted):
                break
            self._now.look()

    def _drop_unwanted(self, wanted: str) -> bool:
        """Let go of anything but ``wanted``, as far as the last look can tell; True when something was dropped."""
        if not self._now.state.arm.gripper_holding:
            return False
        held = self._now.nearest_to_gripper()
        if held == wanted:
            self._now.state = replace(self._now.state, held=held)
            return False
        self._keeper.let_go()
        return True

    # ---- small parts

    def _ask(self, call: Callable[[], PlannerReply]) -> PlannerReply:
        reply = call()
        self._model_calls += reply.cost.input_tokens + reply.cost.output_tokens > 0
        self._voice.cost(reply.cost)
        self._guard()  # a planner may take its time; nothing it said counts after a cancel
        return reply

    def _view(self, step: Step, status: StepStatus) -> StepView:
        position = self._now.rest(step.place) if step.place is not None else None
        attempts = self._breaker.failures(step.key) + (status in (StepStatus.RUNNING, StepStatus.DONE))
        return StepView(str(step.family), step.instruction, step.object, step.target, position, status, attempts)

    def _show(self, first: StepStatus = StepStatus.PENDING) -> None:
        """Publish the plan; ``first`` is the status of the next step."""
        left = [self._view(step, StepStatus.PENDING) for step in self._now.state.plan.steps]
        if left:
            left[0] = self._view(self._now.state.plan.steps[0], first)
        self._voice.plan(self._now.state, tuple(left))
