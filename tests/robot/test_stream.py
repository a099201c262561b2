"""Chunks: what is refused, what is clipped, and that the arm arrives."""

import numpy as np
import pytest

from vlatools.core import ActionChunk, ActionSpace, ChunkRefused
from vlatools.robot.ports import ArmMode, MoveTo


def refused(rig, chunk) -> str:
    with pytest.raises(ChunkRefused) as caught:
        rig.arm.send_chunk(chunk)
    assert rig.arm.state().stream.refused.startswith(caught.value.reason)
    return caught.value.reason


def test_a_chunk_is_followed_to_its_last_row(rig):
    rig.servo.error = np.array([0.008, -0.008, 0.005, 0.008, 0.0, 0.008, 0.0])  # friction
    target = np.array([0.42, 0.1, 0.35])
    rig.arm.send_chunk(rig.line(target))
    rig.clock.sleep(0.5)
    assert rig.arm.state().mode is ArmMode.STREAMING
    assert 0.3 < rig.arm.state().stream.remaining_s < 0.7
    rig.clock.sleep(1.3)
    assert np.linalg.norm(rig.arm.state().ee.position - target) < 0.003
    assert rig.arm.state().stream.clips == 0


def test_lag_behind_the_rows_is_small(rig):
    start = rig.arm.state()
    chunk = rig.line(start.ee.position + np.array([0.0, 0.25, 0.0]), rows=25, dt=0.05)
    rig.arm.send_chunk(chunk)
    lags = []
    for _ in range(50):
        rig.clock.sleep(0.02)
        now = rig.clock.now()
        row = min(max((now - chunk.stamp_s) / 1.25, 0.0), 1.0) * 0.25
        lags.append(row - (rig.arm.state().ee.position[1] - start.ee.position[1]))
    assert max(np.abs(lags[15:])) < 0.06 * 0.2  # 60 ms at 0.2 m/s


def test_chunks_that_overlap_keep_the_motion_smooth(rig):
    """C11: rows are re-sent at 10 Hz with 2 cm of noise; what is sent stays within acceleration and jerk."""
    rng = np.random.default_rng(0)
    for index in range(30):
        rig.arm.send_chunk(rig.line([0.45, 0.15, 0.3] + rng.normal(size=3) * 0.02, index=index))
        rig.clock.sleep(0.1)
    q = np.array([entry[1] for entry in rig.servo.sent])
    assert np.abs(np.diff(q, 2, axis=0)).max() / 0.02**2 <= 6.0 + 1e-6
    assert np.abs(np.diff(q, 3, axis=0)).max() / 0.02**3 <= 250.0 + 1e-6
    assert np.linalg.norm(rig.arm.state().ee.position - [0.45, 0.15, 0.3]) < 0.06


def test_a_joint_step_is_smoothed(rig):
    """C11: a step of 0.2 rad."""
    rows = np.zeros((1, 8))
    rows[0, :7] = rig.arm.state().q
    rows[0, 0] += 0.2
    rows[0, 7] = 0.08
    rig.arm.send_chunk(ActionChunk("i", 0, ActionSpace.JOINT_POSITION, rig.clock.now(), 0.1, rows))
    rig.clock.sleep(1.5)
    q = np.array([entry[1] for entry in rig.servo.sent])
    assert np.abs(np.diff(q, axis=0)).max() / 0.02 <= 0.5 * 2.62
    assert rig.arm.state().q[0] == pytest.approx(rows[0, 0], abs=2e-3)


def test_targets_outside_are_clipped_and_counted(rig):
    rig.arm.send_chunk(rig.line([0.4, 0.0, -0.1], rows=20, dt=0.1))
    rig.clock.sleep(3.0)
    state = rig.arm.state()
    assert state.stream.clips >= 3
    assert 0.0108 < state.ee.position[2] < 0.015  # fingertips just above the table


def test_a_chunk_that_is_too_fast_is_stretched_not_cut(rig):
    start = rig.arm.state().ee.position
    rig.arm.send_chunk(rig.line(start + np.array([0.0, 0.3, 0.0]), rows=10, dt=0.03))
    assert rig.arm.state().stream.remaining_s > 0.8
    assert rig.arm.state().stream.clips >= 9
    rig.clock.sleep(1.6)
    assert rig.arm.state().ee.position == pytest.approx(start + np.array([0.0, 0.3, 0.0]), abs=0.003)
    assert (
        np.abs(
            np.array([rig.arm._runner._planner.model.matrix(q)[0, 3] for _, q, _ in rig.servo.sent]) - start[0]
        ).max()
        < 0.01
    )


def test_what_is_refused_and_why(rig):
    here = rig.arm.state().ee
    now = rig.clock.now()
    assert refused(rig, rig.line(here.position + np.array([0.3, 0, 0]), rows=1, dt=0.05)) == "jump"
    turned = rig.line(here.position, rows=1, dt=0.05)  # C2: half a turn away
    rows = turned.actions.copy()
    rows[:, 3:7] = [0.0, 0.0, 0.0, 1.0]
    assert refused(rig, ActionChunk("x", 0, ActionSpace.EE_POSE, now, 0.05, rows)) == "jump"
    assert refused(rig, rig.line(here.position, stamp=now - 1.5)) == "stale"
    assert refused(rig, rig.line(here.position, stamp=now + 5.0)) == "bad_stamp"
    rig.arm.send_chunk(rig.line(here.position, index=3))
    assert refused(rig, rig.line(here.position, index=3)) == "out_of_order"
    rig.arm.send_chunk(rig.line(here.position, index=4))
    rig.arm.send_chunk(rig.line(here.position, invocation="next"))
    assert refused(rig, rig.line(here.position, index=5)) == "ended"  # C44: the older one is over


def test_a_stream_that_runs_out_holds_and_then_ends(rig):
    rig.arm.send_chunk(rig.line(rig.arm.state().ee.position + np.array([0.02, 0, 0]), rows=2))
    rig.clock.sleep(1.0)
    assert rig.arm.state().mode is ArmMode.STREAMING
    assert rig.arm.state().stream.remaining_s == 0
    where = rig.arm.state().ee.position
    rig.clock.sleep(2.5)
    assert rig.arm.state().mode is ArmMode.IDLE
    assert np.linalg.norm(rig.arm.state().ee.position - where) < 1e-3


def test_hold_ends_the_invocation(rig):
    rig.arm.send_chunk(rig.line(rig.arm.state().ee.position + np.array([0.1, 0, 0])))
    rig.clock.sleep(0.4)
    rig.arm.hold()
    rig.arm.hold()
    assert rig.arm.wait_standstill(1.0)
    assert refused(rig, rig.line(rig.arm.state().ee.position, index=1)) == "ended"
    rig.arm.send_chunk(rig.line(rig.arm.state().ee.position, invocation="new"))


def test_a_chunk_during_a_primitive_is_refused_as_busy(rig):
    seen = []

    def during(_):
        if not seen:
            seen.append(refused(rig, rig.line(rig.arm.report().ee.position, invocation="late")))

    assert rig.arm.run(MoveTo(np.array([0.45, 0.1, 0.3])), on_feedback=during).reached
    assert seen == ["busy"]


def test_the_gripper_column_acts_on_changes_only(rig):
    rig.fingers.object_width = 0.04
    here = rig.arm.state().ee.position
    for index in range(5):
        rig.arm.send_chunk(rig.line(here, index=index, rows=2, opening=0.08))
        rig.clock.sleep(0.1)
    assert rig.fingers.commands == []
    for index in range(5, 12):
        rig.arm.send_chunk(rig.line(here, index=index, rows=2, opening=0.0 if index % 2 else 0.004))
        rig.clock.sleep(0.1)
    assert [command[0] for command in rig.fingers.commands] == ["grasp"]
    assert rig.arm.state().gripper_holding
    rig.arm.send_chunk(rig.line(here, invocation="carry", opening=0.04))  # a policy that repeats the measured width
    rig.clock.sleep(0.3)
    assert rig.arm.state().gripper_holding
    assert len(rig.fingers.commands) == 1
    rig.arm.send_chunk(rig.line(here, invocation="carry", index=1, opening=0.08))
    rig.clock.sleep(0.8)
    assert [command[0] for command in rig.fingers.commands] == ["grasp", "move"]
    assert rig.arm.state().gripper_width == pytest.approx(0.08, abs=1e-3)  # C24: the full opening, not half of it
