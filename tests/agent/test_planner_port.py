"""Planners that are not the library: insisting, slow, claiming, breaking."""

from __future__ import annotations

from dataclasses import replace

from tests.agent.fake_world import SIMPLE, FakeWorld, RunTask
from vlatools.agent.budget import TaskBudget
from vlatools.agent.config import AgentConfig
from vlatools.agent.effects import Effect, EffectKind
from vlatools.agent.events import LedgerEntry
from vlatools.agent.library import PlanLibrary
from vlatools.agent.plan import Stage, Step
from vlatools.agent.planner import PlannerReply, ReplanEvent
from vlatools.agent.state import AgentState
from vlatools.core import Family, Invocation, InvocationResult, Outcome

TEXT = "put the red cube into the left bowl"


class ScriptedPlanner:
    """Answers what it is told to, and keeps what it was asked."""

    name = "scripted"

    def __init__(self, first: tuple[Stage, ...], again: tuple[Stage, ...], seconds: float = 0.0) -> None:
        self._first, self._again, self._seconds = first, again, seconds
        self.events: list[ReplanEvent] = []
        self.world: FakeWorld | None = None

    def plan(self, state: AgentState) -> PlannerReply:
        return PlannerReply(self._first, LedgerEntry(0.0, "scripted", input_tokens=100, output_tokens=10))

    def replan(self, state: AgentState, event: ReplanEvent) -> PlannerReply:
        self.events.append(event)
        if self.world is not None:
            self.world.clock.sleep(self._seconds)
        return PlannerReply(self._again, LedgerEntry(0.0, "scripted", input_tokens=50, output_tokens=5))


GRASP = Step(Family.GRASP, "grasp the red cube", "red cube")
EFFECT = Effect(EffectKind.IN_BOWL, "red cube", "left bowl")
STAGE = Stage("put the red cube into the left bowl", "red cube", (GRASP,), EFFECT)


def stagnate(world: FakeWorld, invocation: Invocation) -> InvocationResult:
    world.clock.sleep(2.0)
    return world.result(invocation, Outcome.STAGNATED, "stagnated")


def test_a_planner_that_insists_is_told_why_and_then_stopped(run_task: RunTask) -> None:
    """C50, C52: the same step three times, whatever plan it comes in and however it is worded."""
    reworded = replace(STAGE, steps=(replace(GRASP, instruction="take hold of the red cube"),))
    planner = ScriptedPlanner((STAGE,), (reworded,))
    world = FakeWorld.of(SIMPLE, script=stagnate)
    result = run_task(world, TEXT, TaskBudget(attempts_per_step=3, max_replans=50), planner)
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, "attempts_exhausted")
    assert len(world.calls) == 3
    assert len(planner.events) == 3
    assert [event.exhausted for event in planner.events] == [frozenset(), frozenset(), frozenset({GRASP.key})]
    assert "stagnated" in planner.events[0].trigger.value
    assert "grasp the red cube" in planner.events[0].message
    assert result.model_calls == 4


def test_done_is_a_claim_until_it_is_seen(run_task: RunTask) -> None:
    """C98a: the planner says done at once; nothing was done."""
    result = run_task(FakeWorld.of(SIMPLE), TEXT, planner=ScriptedPlanner((), ()))
    assert (result.claimed, result.verified, result.outcome) == (True, False, Outcome.STAGNATED)
    assert result.reason == "not_verified"
    # It names an effect, has no steps for it, and insists: the look says no.
    planner = ScriptedPlanner((replace(STAGE, steps=()),), ())
    result = run_task(FakeWorld.of(SIMPLE), TEXT, planner=planner)
    assert (result.claimed, result.verified) == (True, False)
    assert len(planner.events) == 1


def test_a_stage_without_an_effect_cannot_be_verified(run_task: RunTask) -> None:
    stage = replace(STAGE, effect=None, steps=(Step(Family.REACH, "reach the red cube", "red cube"),))
    result = run_task(FakeWorld.of(SIMPLE), TEXT, planner=ScriptedPlanner((stage,), ()))
    assert (result.claimed, result.verified) == (True, False)


def test_a_slow_planner_cannot_outlive_the_time_limit(run_task: RunTask) -> None:
    planner = ScriptedPlanner((STAGE,), (STAGE,), seconds=90.0)
    world = FakeWorld.of(SIMPLE, script=stagnate)
    planner.world = world
    result = run_task(world, TEXT, TaskBudget(time_limit_s=60.0), planner)
    assert result.outcome is Outcome.TIMEOUT
    assert len(world.calls) == 1


def test_a_blocked_planner_does_not_delay_a_verdict_on_the_tool(run_task: RunTask) -> None:
    """C51: the tool has ended by its own monitor before the planner is asked; the record says when."""
    planner = ScriptedPlanner((STAGE,), (STAGE,), seconds=30.0)
    world = FakeWorld.of(SIMPLE, script=stagnate)
    planner.world = world
    result = run_task(world, TEXT, TaskBudget(time_limit_s=600.0, attempts_per_step=2), planner)
    assert [record.result.outcome for record in result.records] == [Outcome.STAGNATED] * 2
    assert all(record.result.duration_s == 2.0 for record in result.records)
    started = [record.started_s for record in result.records]
    assert started[1] - started[0] > 30.0  # the arm stood still meanwhile: nothing was invoked


def test_a_planner_that_raises_ends_the_task_with_an_answer(run_task: RunTask) -> None:
    class Broken(ScriptedPlanner):
        def replan(self, state: AgentState, event: ReplanEvent) -> PlannerReply:
            raise ConnectionError("no route to the model")

    result = run_task(FakeWorld.of(SIMPLE, script=stagnate), TEXT, planner=Broken((STAGE,), ()))
    assert (result.outcome, result.reason) == (Outcome.FAULT, "internal_error")
    assert "no route to the model" in result.message


def test_the_library_is_deterministic() -> None:
    world = FakeWorld.of(SIMPLE)
    from vlatools.agent.memory import Memory
    from vlatools.agent.plan import Plan

    state = AgentState(TEXT, Memory.begin(world.observe()), world.state(), "", Plan(0, ()))
    library = PlanLibrary(AgentConfig(), world.clock)
    replies = [library.plan(state).stages for _ in range(3)]
    assert replies[0] == replies[1] == replies[2]
