"""The agent's own state s_k (paper, section 3): goal, scene memory, what is done, what was called and came back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vlatools.agent.memory import Memory
from vlatools.agent.plan import Plan, Stage, StepStatus, StepView
from vlatools.core import InvocationResult
from vlatools.robot.ports import ArmState


@dataclass(frozen=True)
class CallRecord:
    """One finished invocation.

    Attributes:
        started_s: monotonic time at which it was issued.
        result: what the tool returned; ``result.invocation`` is what was sent.
        verdict: ``ok``, or why the agent did not accept it.
        stage: text of the goal that it served.
    """

    started_s: float
    result: InvocationResult
    verdict: str
    stage: str


@dataclass(frozen=True)
class AgentState:
    """Everything a planner may decide by. Updated by making a new one (``U`` in the paper).

    Attributes:
        instruction: the user's goal q.
        memory: objects: where they were first and last seen.
        arm: arm state at the newest observation.
        held: id of the object in the gripper, "" if none, "?" if something unknown is held.
        plan: remaining plan.
        done: stages whose effect was reached, oldest first.
        history: finished invocations, oldest first.
        steps_done: what was done, for display.
    """

    instruction: str
    memory: Memory
    arm: ArmState
    held: str
    plan: Plan
    done: tuple[Stage, ...] = ()
    history: tuple[CallRecord, ...] = ()
    steps_done: tuple[StepView, ...] = ()

    @property
    def generation(self) -> int:
        """Generation of the plan; steps of an older one are void."""
        return self.plan.generation

    def called(self, record: CallRecord) -> AgentState:
        """State after an invocation has returned."""
        return replace(self, history=(*self.history, record))

    def stepped(self, view: StepView) -> AgentState:
        """State after the next step has been accepted."""
        done = replace(view, status=StepStatus.DONE)
        return replace(self, plan=self.plan.after_step(), steps_done=(*self.steps_done, done))

    def reached(self) -> AgentState:
        """State after the current stage's effect has been accepted."""
        stage = self.plan.stages[0]
        return replace(self, plan=self.plan.after_stage(), done=(*self.done, stage))

    def replanned(self, stages: tuple[Stage, ...]) -> AgentState:
        """State with a new remaining plan; the old one's generation is void."""
        return replace(self, plan=Plan(self.generation + 1, stages))

    def voided(self) -> AgentState:
        """State without a plan: after a cancel nothing of the old one may run."""
        return replace(self, plan=Plan(self.generation + 1, ()))

    def lasting(self) -> tuple[Stage, ...]:
        """Reached stages whose effects must hold: the last of each object, unless a stage still to come moves it."""
        coming = {stage.object for stage in self.plan.stages}
        last: dict[str, Stage] = {}
        for stage in self.done:
            if stage.lasting:
                last.pop(stage.object, None)
                last[stage.object] = stage
        return tuple(stage for stage in last.values() if stage.object not in coming)
