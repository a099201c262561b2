"""Whole tasks on a table without physics: every way to the end, and recovery."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.agent.fake_world import CONDITIONED, LONG, SIMPLE, FakeWorld, RunTask, Script, thing
from vlatools.agent.budget import TaskBudget
from vlatools.agent.events import AgentEvent, AgentNotice, EventKind, LedgerEntry
from vlatools.agent.plan import PlanView, StepStatus
from vlatools.agent.result import TaskFeedback
from vlatools.core import ArmFault, CancelToken, Family, Invocation, InvocationResult, Outcome, StaleData
from vlatools.robot.ports import ArmMode

SIMPLE_TEXT = "put the red cube into the left bowl, then the yellow cube into the right bowl"
CONDITIONED_TEXT = (
    "stack the left red cube on the right yellow cube, then unstack it to restore the initial layout, "
    "then stack the right yellow cube on the left red cube"
)
LONG_TEXT = (
    "stack the blue cube on the red cube, move the left bowl to where the blue cube was, put the blue cube into that "
    "bowl, stack the yellow cube on the red cube, move the right bowl to where the yellow cube was, put the yellow "
    "cube into the right bowl"
)
TASKS = [(SIMPLE, SIMPLE_TEXT, 8), (CONDITIONED, CONDITIONED_TEXT, 12), (LONG, LONG_TEXT, 24)]


def nth(family: Family, number: int, act: Callable[[FakeWorld, Invocation], InvocationResult | None]) -> Script:
    """A script that acts at the number-th (from 1) invocation of a family."""
    count = 0

    def script(world: FakeWorld, invocation: Invocation) -> InvocationResult | None:
        nonlocal count
        if invocation.family is not family:
            return None
        count += 1
        return act(world, invocation) if count == number else None

    return script


def fails(outcome: Outcome, reason: str = "because") -> Callable[[FakeWorld, Invocation], InvocationResult]:
    def act(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        world.clock.sleep(1.0)
        return world.result(invocation, outcome, reason, "as the script says")

    return act


# ---- nominal


@pytest.mark.parametrize(("things", "text", "count"), TASKS)
def test_without_trouble_the_planner_is_asked_once(things: tuple, text: str, count: int, run_task: RunTask) -> None:
    world = FakeWorld.of(things)
    notices: list[AgentNotice] = []
    seen: list[TaskFeedback] = []
    result = run_task(world, text, notices=notices, on_feedback=seen.append)
    assert (result.outcome, result.claimed, result.verified) == (Outcome.COMPLETED, True, True)
    assert (len(world.calls), result.replans, result.model_calls) == (count, 0, 0)
    assert [entry.model for entry in notices if isinstance(entry, LedgerEntry)] == ["plan_library"]
    plans = [notice for notice in notices if isinstance(notice, PlanView)]
    assert all(len(plan.steps) == count for plan in plans)
    assert all(step.status is StepStatus.DONE for step in plans[-1].steps)
    assert plans[-1].current == count
    assert {feedback.total for feedback in seen} == {count}
    assert [feedback.current for feedback in seen] == sorted(feedback.current for feedback in seen)
    assert len(result.table()) == count


def test_the_same_sight_leads_to_different_actions(run_task: RunTask) -> None:
    world = FakeWorld.of(CONDITIONED)
    run_task(world, CONDITIONED_TEXT)
    grasped = [call.object for call in world.calls if call.family is Family.GRASP]
    assert grasped == ["red cube", "red cube", "yellow cube"]


def test_places_are_remembered_from_the_first_look(run_task: RunTask) -> None:
    world = FakeWorld.of(LONG)
    run_task(world, LONG_TEXT)
    assert np.allclose(world.objects["left bowl"].pose.position[:2], (0.44, 0.15))
    assert np.allclose(world.objects["right bowl"].pose.position[:2], (0.44, -0.15))


def test_a_bowl_that_changes_sides_stays_the_same_bowl(run_task: RunTask) -> None:
    world = FakeWorld.of((thing("red cube", 0.4, 0.0), thing("left bowl", 0.6, 0.1), thing("right bowl", 0.5, -0.1)))
    result = run_task(world, "move the left bowl to the right of the right bowl, put the red cube into that bowl")
    assert result.outcome is Outcome.REJECTED  # there is no room on that side
    result = run_task(world, "move the left bowl in front of the right bowl, then put the red cube into that bowl")
    assert result.verified
    bowl, cube = (world.objects[name].pose.position for name in ("left bowl", "red cube"))
    assert np.allclose(bowl[:2], cube[:2])


# ---- recovery


def test_a_cube_moved_by_hand_during_the_grasp_is_reached_again(run_task: RunTask) -> None:
    def teleport(world: FakeWorld, invocation: Invocation) -> None:
        world.place("red cube", 0.52, 0.02)

    world = FakeWorld.of(SIMPLE, script=nth(Family.GRASP, 1, teleport))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert result.replans == 1
    families = [call.family.value for call in world.calls[:6]]
    assert families == ["reach", "grasp", "reach", "grasp", "move", "release"]
    assert world.calls[2].position is not None
    assert np.allclose(world.calls[2].position[:2], (0.52, 0.02))


def test_a_cube_knocked_out_of_the_gripper_is_fetched_again(run_task: RunTask) -> None:
    def knock(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        world.clock.sleep(1.0)
        world.place("red cube", 0.5, 0.05)
        world.held, world.width = "", 0.0
        return world.result(invocation, Outcome.STAGNATED, "stagnated", "the object is no longer held")

    world = FakeWorld.of(SIMPLE, script=nth(Family.MOVE, 1, knock))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert result.replans == 1
    assert [call.family.value for call in world.calls[2:7]] == ["move", "reach", "grasp", "move", "release"]
    assert "Release" in world.primitives  # the closed, empty gripper was opened


def test_a_move_that_claims_success_with_an_empty_gripper_is_not_believed(run_task: RunTask) -> None:
    def drop(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        world.place("red cube", 0.5, 0.05)
        world.held, world.width = "", 0.0
        return world.result(invocation)

    result = run_task(FakeWorld.of(SIMPLE, script=nth(Family.MOVE, 1, drop)), SIMPLE_TEXT)
    assert result.verified
    assert result.replans == 1
    assert "holds nothing" in result.records[2].verdict


def test_a_move_that_stagnates_while_holding_goes_on_with_the_move(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE, script=nth(Family.MOVE, 1, fails(Outcome.STAGNATED)))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert [call.family.value for call in world.calls[2:5]] == ["move", "move", "release"]


def test_a_bowl_shifted_after_the_plan_is_found_where_it_is(run_task: RunTask) -> None:
    def shift(world: FakeWorld, invocation: Invocation) -> None:
        world.place("left bowl", 0.55, 0.18)

    world = FakeWorld.of(SIMPLE, script=nth(Family.REACH, 1, shift))
    assert run_task(world, SIMPLE_TEXT).verified


def test_a_cube_released_beside_a_bowl_that_was_shifted_is_picked_up_again(run_task: RunTask) -> None:
    def shift(world: FakeWorld, invocation: Invocation) -> None:
        world.place("left bowl", 0.55, 0.18)

    world = FakeWorld.of(SIMPLE, script=nth(Family.RELEASE, 1, shift))
    notices: list[AgentNotice] = []
    result = run_task(world, SIMPLE_TEXT, notices=notices)
    assert result.verified
    assert result.replans == 1
    assert [call.family.value for call in world.calls[4:8]] == ["reach", "grasp", "move", "release"]
    replanned = [n for n in notices if isinstance(n, AgentEvent) and n.kind is EventKind.REPLANNED]
    assert "stage_check" in replanned[0].message


def test_an_early_goal_that_came_undone_is_done_again(run_task: RunTask) -> None:
    def undo(world: FakeWorld, invocation: Invocation) -> None:
        world.place("red cube", 0.42, 0.02)

    world = FakeWorld.of(SIMPLE, script=nth(Family.RELEASE, 2, undo))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert result.replans == 1
    assert [call.object for call in world.calls[8:]] == ["red cube"] * 4


def test_a_place_that_got_occupied_is_cleared_first(run_task: RunTask) -> None:
    def obstruct(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        world.place("red cube", 0.44, 0.15)
        world.place("blue cube", 0.44, 0.02)
        return world.result(invocation, Outcome.STAGNATED)

    world = FakeWorld.of(LONG[:1] + LONG[1:2] + LONG[3:], script=nth(Family.REACH, 2, obstruct))
    result = run_task(world, "stack the blue cube on the red cube, move the left bowl to where the blue cube was")
    assert result.verified, result.message
    assert np.allclose(world.objects["left bowl"].pose.position[:2], (0.44, 0.15))


def test_a_wrong_thing_in_the_gripper_is_let_go(run_task: RunTask) -> None:
    def wrong(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        world.ee = np.array(world.objects["yellow cube"].pose.position)
        world.held, world.width = "yellow cube", 0.04
        return world.result(invocation, Outcome.TIMEOUT)

    world = FakeWorld.of(SIMPLE, script=nth(Family.GRASP, 1, wrong))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert world.primitives[:2] == ["Release", "Retreat"]  # down here, not dropped from above


def test_a_hidden_result_is_looked_at_from_further_away(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE)

    def hide(w: FakeWorld, invocation: Invocation) -> None:
        if invocation.family is Family.RELEASE:
            w.hidden = {invocation.object}

    world.script = lambda w, i: hide(w, i)
    real = world.run

    def run(primitive: object, *args: object) -> object:
        world.hidden = set()
        return real(primitive, *args)  # type: ignore[arg-type]

    world.run = run  # type: ignore[method-assign, assignment]
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert result.replans == 0
    assert world.primitives.count("Retreat") >= 2


def test_the_first_look_is_repeated_from_home_when_something_is_missing(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE, hidden={"left bowl"})
    real = world.run

    def run(primitive: object, *args: object) -> object:
        world.hidden = set()
        return real(primitive, *args)  # type: ignore[arg-type]

    world.run = run  # type: ignore[method-assign, assignment]
    assert run_task(world, SIMPLE_TEXT).verified


# ---- ends


def test_a_step_that_keeps_failing_is_given_up_with_the_reason(run_task: RunTask) -> None:
    def always(world: FakeWorld, invocation: Invocation) -> InvocationResult | None:
        return fails(Outcome.STAGNATED)(world, invocation) if invocation.family is Family.GRASP else None

    world = FakeWorld.of(SIMPLE, script=always)
    result = run_task(world, SIMPLE_TEXT, TaskBudget(attempts_per_step=3))
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, "attempts_exhausted")
    assert sum(call.family is Family.GRASP for call in world.calls) == 3
    assert not result.claimed
    assert not result.verified
    assert "grasp the red cube" in result.message


def test_an_object_that_is_gone_is_missed_by_name(run_task: RunTask) -> None:
    def steal(world: FakeWorld, invocation: Invocation) -> None:
        world.place("red cube", 1.5, 0.0)
        world.hidden = {"red cube"}

    world = FakeWorld.of(SIMPLE, script=nth(Family.GRASP, 1, steal))
    result = run_task(world, SIMPLE_TEXT)
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, "object_lost")
    assert "the red cube is gone" in result.message
    assert world.primitives[-1] == "Home"
    assert len(world.calls) == 2


def test_an_object_that_one_look_misses_is_looked_for_again(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE)

    def blink(w: FakeWorld, invocation: Invocation) -> InvocationResult:
        w.hidden = {"red cube"}
        return w.result(invocation, Outcome.STAGNATED)

    world.script = nth(Family.GRASP, 1, blink)
    real = world.run

    def run(primitive: object, *args: object) -> object:
        if type(primitive).__name__ == "Home":
            world.hidden = set()
        return real(primitive, *args)  # type: ignore[arg-type]

    world.run = run  # type: ignore[method-assign, assignment]
    assert run_task(world, SIMPLE_TEXT).verified


def test_without_progress_the_time_for_failures_runs_out(run_task: RunTask) -> None:
    """C52: issuing the step again does not give the time back."""

    def flat(world: FakeWorld, invocation: Invocation) -> InvocationResult | None:
        if invocation.family is Family.REACH:
            return None
        world.clock.sleep(10.0)
        return InvocationResult(
            invocation, Outcome.STAGNATED, "stagnated", "flat", 0.3, 10.0, 1, 0, None, 0.04, False, True, 0.0
        )

    world = FakeWorld.of(SIMPLE, script=flat)
    budget = TaskBudget(attempts_per_step=20, no_progress_s=25.0, time_limit_s=600)
    result = run_task(world, SIMPLE_TEXT, budget)
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, "no_progress")
    assert sum(call.family is Family.GRASP for call in world.calls) == 3


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (TaskBudget(max_replans=1, attempts_per_step=10), "replan_budget"),
        (TaskBudget(max_invocations=3, attempts_per_step=10), "invocation_budget"),
    ],
)
def test_budgets_end_the_task(budget: TaskBudget, reason: str, run_task: RunTask) -> None:
    def always(world: FakeWorld, invocation: Invocation) -> InvocationResult | None:
        return fails(Outcome.STAGNATED)(world, invocation) if invocation.family is Family.GRASP else None

    result = run_task(FakeWorld.of(SIMPLE, script=always), SIMPLE_TEXT, budget)
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, reason)


@pytest.mark.parametrize(
    "outcome", [Outcome.STAGNATED, Outcome.TIMEOUT, Outcome.FAULT, Outcome.STALE_OBSERVATION, Outcome.REJECTED]
)
@pytest.mark.parametrize("family", [Family.REACH, Family.GRASP, Family.MOVE, Family.RELEASE])
def test_one_failure_of_any_kind_anywhere_is_recovered(outcome: Outcome, family: Family, run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE, script=nth(family, 2, fails(outcome)))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified, result.message
    assert result.replans == 1


def test_the_time_limit_ends_a_running_invocation_and_everything_after(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE)

    def watch(w: FakeWorld, invocation: Invocation) -> None:
        w.seconds = 9.0

    world.script = watch
    result = run_task(world, SIMPLE_TEXT, TaskBudget(time_limit_s=20.0))
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, "time_limit")
    assert len(world.calls) == 3


def test_tools_see_the_deadline_through_their_cancel_token(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE)
    reasons: list[str] = []
    real = world.invoke

    def invoke(invocation: Invocation, cancel: CancelToken, on_feedback: object = None) -> InvocationResult:
        while not cancel.canceled:
            world.clock.sleep(1.0)
        reasons.append(cancel.reason)
        return real(invocation, cancel)

    world.invoke = invoke  # type: ignore[method-assign, assignment]
    result = run_task(world, SIMPLE_TEXT, TaskBudget(time_limit_s=20.0))
    assert result.outcome is Outcome.TIMEOUT
    assert reasons == ["deadline"]
    assert result.duration_s <= 25.0


@pytest.mark.parametrize(("reason", "outcome"), [("cancel", Outcome.CANCELED), ("preempt", Outcome.PREEMPTED)])
@pytest.mark.parametrize("number", range(1, 9))
def test_after_a_cancel_nothing_more_is_invoked(reason: str, outcome: Outcome, number: int, run_task: RunTask) -> None:
    """C44: cancel invalidates the plan, whatever is seen later."""
    token = CancelToken()
    world = FakeWorld.of(SIMPLE)

    def cancel(w: FakeWorld, invocation: Invocation) -> InvocationResult | None:
        if len(w.calls) == number:
            token.cancel(reason)
            token.cancel(reason)
            return w.result(invocation, Outcome.CANCELED, "canceled")
        return None

    world.script = cancel
    notices: list[AgentNotice] = []
    result = run_task(world, SIMPLE_TEXT, cancel=token, notices=notices)
    assert result.outcome is outcome
    assert len(world.calls) == number
    assert not result.verified
    plans = [notice for notice in notices if isinstance(notice, PlanView)]
    assert plans[-1].generation > plans[0].generation
    assert len(plans[-1].steps) == number - 1


def test_a_cancel_between_invocations_counts_at_once(run_task: RunTask) -> None:
    token = CancelToken()
    world = FakeWorld.of(SIMPLE)
    look = world.observe

    class Watched(FakeWorld):
        @property
        def observe(self):  # type: ignore[no-untyped-def, override]
            def observe_and_cancel() -> object:
                if len(self.calls) == 4:
                    token.cancel()
                return look()

            return observe_and_cancel

    watched = Watched(world.objects, world.clock)
    result = run_task(watched, SIMPLE_TEXT, cancel=token)
    assert result.outcome is Outcome.CANCELED
    assert len(watched.calls) == 4


def test_canceled_before_the_start_moves_nothing_and_the_next_task_runs(run_task: RunTask) -> None:
    token = CancelToken()
    token.cancel()
    world = FakeWorld.of(SIMPLE)
    assert run_task(world, SIMPLE_TEXT, cancel=token).outcome is Outcome.CANCELED
    assert not world.calls
    assert not world.primitives
    assert run_task(world, SIMPLE_TEXT).verified  # C41: the next goal has its own token


def test_canceled_is_reported_only_at_standstill(run_task: RunTask) -> None:
    """C38."""
    token = CancelToken()

    def cancel(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        token.cancel()
        world.moving = True
        return world.result(invocation, Outcome.CANCELED, "canceled")

    result = run_task(FakeWorld.of(SIMPLE, script=nth(Family.MOVE, 1, cancel)), SIMPLE_TEXT, cancel=token)
    assert (result.outcome, result.reason) == (Outcome.FAULT, "stop_unconfirmed")


def test_a_busy_arm_is_waited_for_and_then_given_up(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE, script=nth(Family.REACH, 1, fails(Outcome.REJECTED, "busy")))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert result.replans == 0
    world = FakeWorld.of(SIMPLE, script=lambda w, i: w.result(i, Outcome.REJECTED, "busy", "another goal is running"))
    result = run_task(world, SIMPLE_TEXT)
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "busy")
    assert "another goal is running" in result.message
    assert 14.0 <= result.duration_s <= 20.0


def test_an_arm_that_is_never_ready_is_given_up_naming_why(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE, ready=False)
    result = run_task(world, SIMPLE_TEXT)
    assert (result.outcome, result.reason) == (Outcome.FAULT, "not_ready")
    assert "busy in the test" in result.message
    assert not world.calls


def test_a_reflex_is_recovered_once_and_a_person_s_stop_never(run_task: RunTask) -> None:
    def reflex(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        world.mode, world.ready = ArmMode.REFLEX, False
        return world.result(invocation, Outcome.FAULT, "reflex", "cartesian_reflex")

    world = FakeWorld.of(SIMPLE, script=nth(Family.MOVE, 1, reflex))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert world.recovered == 1

    def stop(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        world.mode, world.ready = ArmMode.STOPPED, False
        return world.result(invocation, Outcome.FAULT, "stopped", "latched")

    world = FakeWorld.of(SIMPLE, script=nth(Family.MOVE, 1, stop))
    result = run_task(world, SIMPLE_TEXT)
    assert (result.outcome, result.reason) == (Outcome.FAULT, "stopped")
    assert world.recovered == 0
    assert len(world.calls) == 3


def test_a_reflex_that_may_not_be_cleared_ends_the_task(run_task: RunTask) -> None:
    def reflex(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        world.mode, world.ready = ArmMode.REFLEX, False
        return world.result(invocation, Outcome.FAULT, "reflex")

    world = FakeWorld.of(SIMPLE, script=nth(Family.MOVE, 1, reflex))

    def refuse(allow_collision: bool = False) -> tuple[str, ...]:
        raise ArmFault("reflex", "a collision reflex needs a person", ("cartesian_reflex",))

    world.recover = refuse  # type: ignore[method-assign]
    result = run_task(world, SIMPLE_TEXT)
    assert (result.outcome, result.reason) == (Outcome.FAULT, "reflex")
    assert "needs a person" in result.message


def test_a_blind_camera_ends_the_task_by_its_name(run_task: RunTask) -> None:
    class Blind(FakeWorld):
        @property
        def observe(self):  # type: ignore[no-untyped-def, override]
            def look() -> None:
                raise StaleData("camera", 3.0, 0.5, "check the camera node")

            return look

    world = Blind({}, FakeWorld.of(SIMPLE).clock)
    result = run_task(world, SIMPLE_TEXT)
    assert (result.outcome, result.reason) == (Outcome.STALE_OBSERVATION, "stale_camera")


def test_an_impossible_instruction_is_rejected_before_anything_moves(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE)
    result = run_task(world, "dance with the red cube")
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "not_understood")
    assert not world.calls
    assert not world.primitives


def test_a_task_does_not_drop_what_the_gripper_already_holds(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE, held="yellow cube", width=0.04, ee=np.array([0.44, -0.10, 0.02]))
    result = run_task(world, SIMPLE_TEXT)
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "gripper_occupied")
    assert world.held == "yellow cube"
    assert not world.calls
    world = FakeWorld.of(SIMPLE, held="red cube", width=0.04, ee=np.array([0.44, 0.10, 0.02]))
    result = run_task(world, SIMPLE_TEXT)
    assert result.verified
    assert world.calls[0].family is Family.MOVE


def test_holding_as_a_goal(run_task: RunTask) -> None:
    world = FakeWorld.of(SIMPLE)
    result = run_task(world, "pick up the red cube")
    assert result.verified
    assert world.held == "red cube"
    assert len(world.calls) == 2


def test_a_broken_tool_still_gives_an_answer(run_task: RunTask) -> None:
    """C98: whatever happens, the caller hears of it."""

    def broken(world: FakeWorld, invocation: Invocation) -> InvocationResult:
        raise OSError("the socket is gone")

    result = run_task(FakeWorld.of(SIMPLE, script=broken), SIMPLE_TEXT)
    assert (result.outcome, result.reason) == (Outcome.FAULT, "internal_error")
    assert "the socket is gone" in result.message
