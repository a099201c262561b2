"""The analytic policy on a table without physics: geometry, bookkeeping and honest progress of every family."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.policy.kinematic_world import Table, bowl, cube
from tests.tools.doubles import FakeArm
from vlatools.core import ActionChunk, ConfigError, Family, Feedback, Invocation, Outcome
from vlatools.policy.analytic import AnalyticConfig

DONE = Outcome.COMPLETED


def _scene() -> Table:
    return Table(
        {
            "red cube": cube(0.44, 0.10, 0.3),
            "yellow cube": cube(0.45, -0.10, -0.5),
            "left bowl": bowl(0.62, 0.12),
            "right bowl": bowl(0.62, -0.12),
        }
    )


def _carry(table: Table, name: str, **place) -> list:
    results = [table.do("reach", name), table.do("grasp", name), table.do("move", name, **place), table.do("release", name, **place)]
    assert [r.outcome for r in results] == [DONE] * 4, [f"{r.outcome} {r.reason} {r.message}" for r in results]
    return results


def test_a_cube_goes_into_a_bowl_in_brisk_time() -> None:
    table = _scene()
    results = _carry(table, "red cube", target="left bowl")
    red, left = table.things["red cube"], table.things["left bowl"]
    assert np.linalg.norm(red.position[:2] - left.position[:2]) < 0.005
    assert red.position[2] == pytest.approx(0.024)
    assert sum(r.duration_s for r in results) < 7.5
    assert table.arm.width == pytest.approx(0.08, abs=0.008)


def test_a_cube_stands_on_a_cube_with_parallel_faces() -> None:
    table = _scene()
    _carry(table, "red cube", target="yellow cube")
    red, yellow = table.things["red cube"], table.things["yellow cube"]
    assert np.linalg.norm(red.position[:2] - yellow.position[:2]) < 0.004
    assert red.position[2] == pytest.approx(0.06)
    assert math.remainder(red.yaw - yellow.yaw, math.pi / 2) == pytest.approx(0.0, abs=0.03)


def test_a_cube_comes_off_a_stack_to_a_place_on_the_table() -> None:
    table = _scene()
    _carry(table, "red cube", target="yellow cube")
    _carry(table, "red cube", position=np.array([0.44, 0.10, 0.0]))
    assert table.things["red cube"].position == pytest.approx([0.44, 0.10, 0.02], abs=0.004)


def test_a_bowl_is_carried_by_its_rim_and_its_centre_arrives() -> None:
    table = _scene()
    _carry(table, "left bowl", position=np.array([0.42, 0.16, 0.0]))
    assert table.things["left bowl"].position[:2] == pytest.approx([0.42, 0.16], abs=0.005)


def test_a_held_object_never_passes_through_what_stands_on_the_way() -> None:
    table = Table({"red cube": cube(0.40, 0.15), "blue cube": cube(0.40, 0.0), "yellow cube": cube(0.40, 0.0, z=0.06)})
    clearances = []

    def watch() -> None:
        body = table.things["red cube"]
        if table.held == "red cube" and abs(body.position[1]) < 0.04:
            clearances.append(body.position[2] - 0.02 - 0.08)

    step = table.arm.on_step

    def both(arm) -> None:
        step(arm)  # type: ignore[misc]
        watch()

    table.arm.on_step = both
    _carry(table, "red cube", position=np.array([0.40, -0.15, 0.0]))
    assert clearances
    assert min(clearances) > 0.015


def test_the_fingers_stay_above_the_table() -> None:
    table = _scene()
    _carry(table, "red cube", target="left bowl")
    _carry(table, "right bowl", position=np.array([0.42, -0.16, 0.0]))
    assert table.lowest > 0.012


def test_reach_follows_a_cube_that_is_moved_on_the_way() -> None:
    table = _scene()
    moved = table.clock.now() + 0.3
    step = table.arm.on_step

    def push(arm) -> None:
        step(arm)  # type: ignore[misc]
        if table.clock.now() > moved:
            table.things["red cube"].position = np.array([0.47, 0.13, 0.02])

    table.arm.on_step = push
    assert table.do("reach", "red cube").outcome is DONE
    assert table.arm.ee.position == pytest.approx([0.47, 0.13, 0.02], abs=0.008)


def test_a_missed_grasp_plateaus_and_stagnates() -> None:
    table = _scene()
    table.do("reach", "red cube")
    table.things["red cube"].position = np.array([0.44, 0.16, 0.02])
    table.hidden.add("red cube")
    result = table.do("grasp", "red cube")
    assert result.outcome is Outcome.STAGNATED
    assert result.progress < 0.6


def test_a_grasp_of_something_that_was_taken_away_is_refused() -> None:
    table = _scene()
    table.do("reach", "red cube")
    table.things["red cube"].position = np.array([0.55, 0.0, 0.02])
    result = table.do("grasp", "red cube")
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "not_around")


def test_a_cube_knocked_out_during_a_move_ends_the_move() -> None:
    table = _scene()
    table.do("reach", "red cube")
    table.do("grasp", "red cube")
    knock = table.clock.now() + 0.8
    step = table.arm.on_step

    def hit(arm) -> None:
        step(arm)  # type: ignore[misc]
        if table.clock.now() > knock:
            table.knock_out()

    table.arm.on_step = hit
    result = table.do("move", "red cube", target="left bowl")
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, "policy_gave_up")
    assert "lost" in result.message
    assert result.standstill


def test_a_bowl_moved_during_the_carry_is_followed() -> None:
    table = _scene()
    table.do("reach", "red cube")
    table.do("grasp", "red cube")
    table.things["left bowl"].position = np.array([0.60, 0.16, 0.0225])
    table.do("move", "red cube", target="left bowl", position=np.array([0.62, 0.12, 0.004]))
    assert table.do("release", "red cube", target="left bowl").outcome is DONE
    assert table.things["red cube"].position[:2] == pytest.approx([0.60, 0.16], abs=0.005)


def test_what_is_not_in_view_is_refused_and_what_is_seen_is_named() -> None:
    table = _scene()
    result = table.do("reach", "green cube")
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "not_in_view")
    assert "red cube" in result.message
    assert table.do("reach", "green cube", position=np.array([0.5, 0.0, 0.02])).outcome is DONE


def test_states_that_make_no_sense_are_refused_with_the_fix() -> None:
    table = _scene()
    assert table.do("move", "red cube", target="left bowl").reason == "not_holding"
    table.do("reach", "red cube")
    table.do("grasp", "red cube")
    assert table.do("reach", "yellow cube").reason == "holding"
    assert table.do("move", "red cube").reason == "bad_argument"
    assert table.do("grasp", "red cube").outcome is DONE  # idempotent
    table.do("release", "red cube")
    table.arm.width = table.arm._target_width = 0.02
    assert table.do("reach", "red cube").reason == "gripper_closed"


def test_release_of_nothing_just_opens() -> None:
    table = _scene()
    table.arm.width = table.arm._target_width = 0.03
    assert table.do("release", "").outcome is DONE
    assert table.arm.width > 0.07


def test_a_policy_that_forgot_what_it_holds_still_puts_it_down() -> None:
    """As after a restart of the tools node."""
    table = _scene()
    table.do("reach", "red cube")
    table.do("grasp", "red cube")
    table.policy._memory.held = table.policy._memory.reached = None
    table.do("move", "red cube", target="yellow cube")
    assert table.do("release", "red cube").outcome is DONE
    assert np.linalg.norm(table.things["red cube"].position[:2] - table.things["yellow cube"].position[:2]) < 0.01


@pytest.mark.parametrize("angle", [0.5, -0.7, 1.4])
def test_rotate_turns_a_cube(angle: float) -> None:
    table = _scene()
    before = table.things["red cube"].yaw
    assert table.do("rotate", "red cube", angle=angle).outcome is DONE
    assert math.remainder(table.things["red cube"].yaw - before - angle, 2 * math.pi) == pytest.approx(0.0, abs=0.08)
    assert table.things["red cube"].position[:2] == pytest.approx([0.44, 0.10], abs=0.005)


def test_pull_draws_an_object_to_a_place() -> None:
    table = _scene()
    result = table.do("pull", "red cube", position=np.array([0.36, 0.05, 0.0]))
    assert result.outcome is DONE, result.message
    assert table.things["red cube"].position[:2] == pytest.approx([0.36, 0.05], abs=0.006)


def test_a_push_that_moves_nothing_is_not_reported_as_done() -> None:
    table = _scene()  # this table has no contact: the cube stays
    result = table.do("push", "red cube", position=np.array([0.55, 0.10, 0.0]))
    assert result.outcome is not DONE


def test_progress_stays_below_the_threshold_until_the_stage_is_met() -> None:
    table = _scene()
    seen = []

    def note(feedback: Feedback) -> None:
        seen.append((feedback.sample.progress, table.arm.ee.position[2]))

    table.executor.execute(Invocation(Family.REACH, "reach", object="red cube"), None, note)
    before = [p for p, z in seen if z > 0.03]
    assert before
    assert max(before) <= 0.88
    assert all(b >= a - 0.05 for a, b in itertools.pairwise(before))


def test_median_error_of_placing_with_noisy_perception() -> None:
    errors = []
    for seed in range(10):
        table = _scene()
        table.noise = 0.002
        table._rng = np.random.default_rng(seed)
        _carry(table, "red cube", target="yellow cube")
        errors.append(np.linalg.norm(table.things["red cube"].position[:2] - table.things["yellow cube"].position[:2]))
    assert np.median(errors) < 0.006
    assert max(errors) < 0.012


def test_configuration_refuses_nonsense_by_name() -> None:
    with pytest.raises(ConfigError, match="horizon"):
        AnalyticConfig(horizon=2, dt=0.05)
    with pytest.raises(ConfigError, match="clearance"):
        AnalyticConfig(clearance=1.0)


def _carrying() -> Table:
    """Red cube in the gripper, about to be carried."""
    table = _scene()
    table.do("reach", "red cube")
    table.do("grasp", "red cube")
    return table


def _then(table: Table, after_s: float, action: Callable[[], None]) -> None:
    """Do something once, ``after_s`` from now."""
    due, step, done = table.clock.now() + after_s, table.arm.on_step, []

    def watch(arm: FakeArm) -> None:
        step(arm)  # type: ignore[misc]
        if table.clock.now() >= due and not done:
            done.append(True)
            action()

    table.arm.on_step = watch


def test_a_target_moved_at_the_last_moment_is_seen_before_the_release() -> None:
    table = _carrying()
    _then(table, 1.0, lambda: setattr(table.things["left bowl"], "position", np.array([0.58, 0.16, 0.0225])))
    assert table.do("move", "red cube", target="left bowl").outcome is DONE
    assert table.do("release", "red cube", target="left bowl").outcome is DONE
    assert table.things["red cube"].position[:2] == pytest.approx([0.58, 0.16], abs=0.005)


def test_a_target_hidden_by_the_hand_is_looked_at_from_higher_up() -> None:
    table = _carrying()
    _then(table, 0.9, lambda: table.hidden.add("left bowl"))
    _then(table, 1.7, lambda: table.hidden.discard("left bowl"))
    assert table.do("move", "red cube", target="left bowl").outcome is DONE
    assert table.arm.ee.position[:2] == pytest.approx([0.62, 0.12], abs=0.005)


def test_a_target_that_is_gone_ends_the_move() -> None:
    table = _carrying()
    _then(table, 0.9, lambda: table.hidden.add("left bowl"))
    result = table.do("move", "red cube", target="left bowl")
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, "policy_gave_up")
    assert "no longer in view" in result.message


def test_a_target_that_was_never_seen_is_taken_from_the_position_given() -> None:
    table = _carrying()
    table.hidden.add("left bowl")
    assert table.do("move", "red cube", target="left bowl", position=np.array([0.62, 0.12, 0.004])).outcome is DONE


def test_fingers_that_hang_are_named() -> None:
    table = _scene()
    table.do("reach", "red cube")
    table.arm.hangs = True
    result = table.do("grasp", "red cube")
    assert result.outcome is Outcome.STAGNATED
    assert "gripper does not move" in result.message


@pytest.mark.parametrize("speed", [0.02, 0.05, 0.15])
def test_targets_wait_for_an_arm_that_is_slower_than_planned(speed: float) -> None:
    """As with a low speed scale, a loaded machine or a simulation below real time: no target runs away from the arm."""
    table, leads = _scene(), []
    table.arm.max_speed = speed
    send = table.arm.send_chunk

    def watch(chunk: ActionChunk) -> None:
        leads.append(float(np.linalg.norm(chunk.actions[0, :3] - table.arm.ee.position)))
        send(chunk)

    table.arm.send_chunk = watch  # type: ignore[method-assign]
    result = table.do("reach", "red cube", horizon_s=60.0)
    assert result.outcome is DONE, result.message
    assert max(leads) < 0.10


def test_an_arm_that_is_held_stagnates_with_targets_near_it() -> None:
    table = _scene()
    _then(table, 0.6, lambda: setattr(table.arm, "stuck", True))
    result = table.do("reach", "red cube")
    assert result.outcome is Outcome.STAGNATED
    assert np.linalg.norm(table.arm.chunks[-1].actions[0, :3] - table.arm.ee.position) < 0.10
