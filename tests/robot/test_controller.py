"""Modes, faults, stop, recovery, cancel and preemption of the arm on a servo that misbehaves."""

import numpy as np
import pytest
from doubles import HOME

from vlatools.core import ArmFault, CancelToken, ChunkRefused, Outcome, Pose, Rejected, StaleData
from vlatools.robot.faults import RECOVERY, Recovery, recovery_of
from vlatools.robot.ports import (
    ArmMode,
    FollowWaypoints,
    Home,
    MoveJoints,
    MovePose,
    MoveTo,
    Retreat,
    RotatePitch,
    RotateWrist,
)

FAR = MoveTo(np.array([0.55, 0.25, 0.2]))


def at(rig, seconds, act):
    """Do ``act`` once, ``seconds`` from now, from inside the clock."""
    done = []
    rig.clock.every(seconds, lambda: done or (done.append(1), act()))


def sent_after(rig, t):
    """Largest change of the reference after time ``t``."""
    q = np.array([q for when, q, _ in rig.servo.sent if when > t])
    return float(np.abs(np.diff(q, axis=0)).max()) if len(q) > 1 else 0.0


# -- primitives ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "primitive",
    [
        MoveTo(np.array([0.5, 0.2, 0.05])),
        MoveTo(np.array([0.5, -0.2, 0.05]), yaw=0.7),
        MoveTo(np.array([0.0, 0.0, 0.1]), frame="fr3_hand_tcp"),
        MovePose(Pose.pointing_down([0.45, 0.0, 0.25], 0.3, 0.4)),
        MoveJoints(HOME + 0.2),
        FollowWaypoints(tuple(Pose.pointing_down(p) for p in ([0.5, 0.2, 0.3], [0.5, -0.2, 0.3]))),
        RotateWrist(0.8),
        RotateWrist(2.2, relative=True),
        RotatePitch(0.4),
        Retreat(0.1),
        Home(),
    ],
    ids=lambda p: type(p).__name__,
)
def test_every_motion_arrives_within_two_millimetres_despite_friction(rig, primitive):
    rig.servo.error = np.array([0.01, -0.01, 0.006, 0.01, 0.005, 0.01, 0.004])
    told = []
    result = rig.arm.run(primitive, on_feedback=told.append)
    assert (result.outcome, result.reached) == (Outcome.COMPLETED, True), result
    assert result.position_error < 0.002
    assert result.orientation_error < 0.01
    progress = [feedback.progress for feedback in told]
    assert all(0 <= p <= 1 for p in progress)
    assert not progress or progress[-1] > 0.5
    assert rig.arm.state().mode is ArmMode.IDLE


def test_forward_in_the_tool_frame_is_down_in_the_base(rig):
    """C13."""
    before = rig.arm.state().ee.position
    assert rig.arm.run(MoveTo(np.array([0.0, 0.0, 0.1]), frame="fr3_hand_tcp")).reached
    assert rig.arm.state().ee.position - before == pytest.approx([0, 0, -0.1], abs=0.003)


def test_move_to_keeps_the_orientation(rig):
    """C2."""
    rig.arm.run(RotateWrist(0.5))
    before = rig.arm.state().ee
    rig.arm.run(MoveTo(np.array([0.45, 0.1, 0.3])))
    assert rig.arm.state().ee.angle_to(before) < 0.02


def test_speed_scale_slows_down(rig):
    fast = rig.arm.run(FAR).duration_s
    rig.arm.run(Home())
    slow = rig.arm.run(MoveTo(FAR.position, speed_scale=0.3)).duration_s
    assert slow > 2 * fast
    assert fast < 3.0


@pytest.mark.parametrize(
    ("primitive", "reason", "words"),
    [
        (MoveTo(np.array([0.95, 0.0, 0.2])), "workspace", "0.78"),
        (MoveTo(np.array([0.5, 0.0, 0.004])), "table", "0.0020"),
        (MoveTo(np.array([0.5, np.nan, 0.2])), "bad_argument", "finite"),
        (MoveTo(np.array([0.5, 0.0, 0.2]), frame="camera"), "bad_argument", "fr3_link0"),
        (MoveTo(np.array([0.5, 0.0, 0.2]), speed_scale=3.0), "bad_argument", "speed_scale"),
        (MoveTo(np.array([0.5, 0.0, 0.2]), timeout_s=-1.0), "bad_argument", "timeout_s"),
        (MovePose(Pose(np.array([0.5, 0.0, 0.4]), np.array([0.0, 0.0, 0.0, 1.0]))), "unreachable", "mm are left"),
        (MoveJoints(np.where(np.arange(7) == 5, 0.2, HOME)), "joint_limits", "joint 6"),  # C18: legal on a Panda
        (FollowWaypoints(()), "bad_argument", "empty"),
        (Retreat(-0.1), "bad_argument", "above 0"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_moves(rig, primitive, reason, words):
    result = rig.arm.run(primitive)
    assert result.outcome is Outcome.REJECTED, result
    assert (
        result.reason in (reason, "self_collision", "joint_limits")
        if reason == "unreachable"
        else result.reason == reason
    )
    assert words in result.message or reason == "unreachable"
    assert rig.servo.sent == []


def test_joint_6_goes_where_only_an_fr3_may(rig):
    q = HOME.copy()
    q[5] = 3.9  # a Panda ends at 3.75
    q[3] = -1.2
    q[1] = 0.0
    result = rig.arm.run(MoveJoints(q))
    assert result.reason != "joint_limits"


def test_retreat_stops_at_the_top_of_the_workspace_and_counts_it(rig):
    result = rig.arm.run(Retreat(0.6))
    assert result.reached
    assert result.clips == 1
    assert result.final_pose.position[2] == pytest.approx(0.695, abs=0.003)


def test_a_target_that_is_not_reached_is_no_success(rig):
    rig.servo.error = np.full(7, 0.2)  # something is in the way
    result = rig.arm.run(MoveTo(np.array([0.45, 0.1, 0.3])))
    assert (result.outcome, result.reason, result.reached) == (Outcome.TIMEOUT, "tolerance", False)
    assert result.position_error > 0.012
    assert "tolerance is 0.012" in result.message


# -- cancel and preempt -------------------------------------------------------------------------------------------
def test_cancel_stands_still_before_it_is_reported(rig):
    token, rng = CancelToken(), np.random.default_rng(0)
    for _ in range(20):
        rig.arm.run(Home())
        token = CancelToken()
        at(rig, float(rng.uniform(0.05, 1.5)), token.cancel)
        result = rig.arm.run(FAR, cancel=token)
        token.cancel()
        assert result.outcome is Outcome.CANCELED, result
        assert rig.arm.state().standstill
        assert np.abs(rig.arm.state().dq).max() < 0.02
        ended = rig.clock.now()
        rig.clock.sleep(0.5)
        assert sent_after(rig, ended) == 0.0  # no motion after it


def test_the_arm_brakes_within_a_period_of_the_cancel(rig):
    token = CancelToken()
    at(rig, 0.8, token.cancel)
    begin = rig.clock.now()
    rig.arm.run(FAR, cancel=token)
    speeds = np.array([np.abs(dq).max() for when, _, dq in rig.servo.sent if when > begin + 0.8 + 0.041])
    assert np.all(np.diff(speeds) <= 1e-9)
    assert speeds[-1] == 0


def test_a_token_canceled_before_the_start_moves_nothing(rig):
    token = CancelToken()
    token.cancel()
    assert rig.arm.run(FAR, cancel=token).outcome is Outcome.CANCELED
    assert sent_after(rig, 0) == 0.0
    assert rig.arm.run(MoveTo(np.array([0.4, 0.0, 0.4]))).reached  # C41: the next goal is not stillborn


def test_a_stop_that_is_ignored_is_not_called_canceled(rig):
    """C38."""
    token = CancelToken()

    def cancel():
        rig.servo.ignore_stop = True
        token.cancel()

    at(rig, 0.5, cancel)
    result = rig.arm.run(FAR, cancel=token)
    assert (result.outcome, result.reason) == (Outcome.FAULT, "stop_unconfirmed")
    assert rig.servo.halts > 0


def test_a_newer_goal_preempts_the_older_and_both_end_once(rig):
    inner = []

    def take_over(_):
        if not inner:
            inner.append(None)
            inner[0] = rig.arm.run(MoveTo(np.array([0.4, -0.1, 0.4])))

    outer = rig.arm.run(FAR, on_feedback=take_over)
    assert (outer.outcome, outer.reason) == (Outcome.PREEMPTED, "preempted")
    assert inner[0].outcome is Outcome.COMPLETED
    assert rig.arm.state().ee.position == pytest.approx([0.4, -0.1, 0.4], abs=0.003)


def test_a_refused_goal_does_not_disturb_the_running_one(rig):
    refused = []

    def ask(_):
        refused.append(rig.arm.run(MoveTo(np.array([2.0, 0.0, 0.2]))).outcome)

    assert rig.arm.run(FAR, on_feedback=ask).reached
    assert set(refused) == {Outcome.REJECTED}


def test_a_primitive_ends_the_stream(rig):
    rig.arm.send_chunk(rig.line([0.5, 0.2, 0.3], invocation="tool"))
    rig.clock.sleep(0.3)
    assert rig.arm.run(MoveTo(np.array([0.4, 0.0, 0.4]))).reached
    with pytest.raises(ChunkRefused, match="was ended"):
        rig.arm.send_chunk(rig.line([0.4, 0.0, 0.4], invocation="tool", index=1))


# -- faults -------------------------------------------------------------------------------------------------------
def fault_during(rig, act):
    """Run a long move, ``act`` in its middle; (result, seconds from the act to the result)."""
    when = []

    def later():
        when.append(rig.clock.now())
        act()

    at(rig, 0.6, later)
    result = rig.arm.run(FAR)
    return result, rig.clock.now() - when[0]


@pytest.mark.parametrize(
    ("field", "value", "reason", "mode"),
    [
        ("reflex", True, "reflex", ArmMode.REFLEX),
        ("errors", ("cartesian_reflex",), "reflex", ArmMode.REFLEX),
        ("user_stopped", True, "user_stop", ArmMode.USER_STOPPED),
        ("disconnected", True, "disconnected", ArmMode.DISCONNECTED),
    ],
)
def test_a_fault_ends_the_goal_within_100_ms_with_its_cause(rig, field, value, reason, mode):
    """C1."""
    rig.servo.reconnect_fails = 100
    result, delay = fault_during(rig, lambda: setattr(rig.servo, field, value))
    assert (result.outcome, result.reason) == (Outcome.FAULT, reason)
    assert delay <= 0.1
    assert rig.arm.report().mode is mode
    assert not rig.arm.report().ready
    again = rig.arm.run(FAR)  # refused, with what to do
    assert again.outcome is Outcome.REJECTED
    assert again.reason == reason
    assert len(again.message) > 20


@pytest.mark.parametrize("field", ["frozen", "silent", "zeros"])
def test_a_state_that_does_not_come_stops_the_arm(rig, field):
    """C8, C10: packets that are old, missing or zero are no state."""
    result, delay = fault_during(rig, lambda: setattr(rig.servo, field, True))
    assert (result.outcome, result.reason) == (Outcome.FAULT, "stale_state")
    assert delay < 0.45
    with pytest.raises(StaleData, match="arm_state"):
        rig.arm.state()
    assert rig.arm.report().q.any()  # never zeros
    setattr(rig.servo, field, False)
    rig.clock.sleep(0.2)
    assert rig.arm.state().ready
    assert rig.arm.run(Home()).reached


def test_a_motion_that_dies_in_the_driver_is_told_and_forgotten(rig):
    """C1: the next goal does not inherit the error."""
    fault = ArmFault("control_exception", "libfranka: motion aborted")
    result, delay = fault_during(rig, lambda: setattr(rig.servo, "command_fault", fault))
    assert (result.outcome, result.reason) == (Outcome.FAULT, "control_exception")
    assert delay <= 0.1
    rig.clock.sleep(rig.arm.config.period_s)  # the next packet says that the robot is well
    assert rig.arm.run(Home()).reached
    assert rig.servo.starts == 2  # begun anew from the measured position


def test_no_goal_slips_in_between_the_end_of_a_motion_and_the_packet_that_names_its_reflex(rig):
    rig.clock.every(0.5, lambda: setattr(rig.servo, "command_fault", ArmFault("reflex", "motion aborted by reflex")))
    assert rig.arm.run(MoveTo(np.array([0.55, 0.25, 0.2]))).reason == "reflex"
    result = rig.arm.run(Home())
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "reflex")


def test_nothing_moves_after_a_user_stop_is_released(rig):
    """C39."""
    rig.arm.send_chunk(rig.line([0.5, 0.25, 0.2], rows=30))
    rig.clock.sleep(0.5)
    rig.servo.user_stopped = True
    rig.clock.sleep(0.3)
    assert rig.arm.report().stream.refused.startswith("user_stop")
    released = rig.clock.now()
    rig.servo.user_stopped = False
    rig.clock.sleep(2.0)
    assert [entry for entry in rig.servo.sent if entry[0] > released] == []
    with pytest.raises(ChunkRefused):
        rig.arm.send_chunk(rig.line([0.5, 0.25, 0.2], index=1))
    rig.arm.send_chunk(rig.line([0.4, 0.0, 0.4], invocation="fresh"))


def test_contact_force_ends_the_motion(rig):
    result, _ = fault_during(rig, lambda: setattr(rig.servo, "force", 50.0))
    assert (result.outcome, result.reason) == (Outcome.FAULT, "contact_force")
    assert "50 N" in result.message
    rig.clock.sleep(0.5)
    assert rig.arm.run(Retreat(0.05)).reached  # away from the contact is possible


# -- recovery -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(RECOVERY))
def test_recovery_is_selective(rig, name):
    """C5, C6: one test per error of the robot."""
    rig.servo.errors = (name,)
    rig.clock.sleep(0.2)
    kind = RECOVERY[name]
    if kind is Recovery.AUTOMATIC:
        assert rig.arm.state().ready
        return
    assert rig.arm.report().mode is ArmMode.REFLEX
    assert name in rig.arm.report().reason
    with pytest.raises(ArmFault, match=name):
        rig.arm.recover()
    if kind is Recovery.MANUAL:
        with pytest.raises(ArmFault, match="by hand"):
            rig.arm.recover(allow_collision=True)
        return
    assert rig.arm.recover(allow_collision=True) == (name,)
    rig.clock.sleep(0.1)
    assert rig.arm.run(Home()).reached


def test_an_unknown_error_counts_as_a_collision():
    assert recovery_of(("something_new",)) is Recovery.COLLISION
    assert recovery_of(()) is Recovery.COLLISION
    assert recovery_of(("joint_velocity_violation", "joint_position_limits_violation")) is Recovery.MANUAL


def test_automatic_recovery_gives_up(rig):
    """C3: at most three times a minute."""
    for _ in range(3):
        rig.servo.errors = ("communication_constraints_violation",)
        rig.clock.sleep(0.2)
        assert rig.arm.state().ready
    rig.servo.errors = ("communication_constraints_violation",)
    rig.clock.sleep(0.5)
    assert rig.arm.report().mode is ArmMode.REFLEX
    assert "real-time kernel" in rig.arm.report().reason
    assert rig.arm.recover() == ("communication_constraints_violation",)


def test_goals_are_refused_while_recovering(rig):
    """C7."""
    rig.servo.errors, rig.servo.recover_s = ("cartesian_reflex",), 3.0
    rig.clock.sleep(0.1)
    seen = []

    def during():
        seen.append((rig.arm.run(Home()).reason, rig.arm.report().mode))

    at(rig, 1.0, during)
    rig.arm.recover(allow_collision=True)
    assert seen == [("recovering", ArmMode.RECOVERING)]
    rig.clock.sleep(0.1)
    assert rig.arm.run(Home()).reached


def test_a_recovery_that_fails_is_told(rig):
    rig.servo.errors, rig.servo.recover_fails = ("joint_reflex",), True
    rig.clock.sleep(0.1)
    with pytest.raises(ArmFault, match="did not clear"):
        rig.arm.recover(allow_collision=True)
    assert rig.arm.report().mode is ArmMode.REFLEX


def test_the_connection_comes_back_by_itself_with_back_off(rig):
    rig.servo.reconnect_fails, rig.servo.disconnected = 3, True
    rig.clock.sleep(0.1)
    assert rig.arm.report().mode is ArmMode.DISCONNECTED
    assert not rig.arm.report().ready
    rig.clock.sleep(1.2)
    assert rig.servo.reconnects == 2  # at once, after 0.5 s, then 1 s, 2 s
    rig.clock.sleep(3.0)
    assert rig.arm.state().ready
    assert rig.arm.run(Home()).reached


# -- stop ---------------------------------------------------------------------------------------------------------
def test_stop_latches_until_a_person_clears_it(rig):
    stopped = []
    token = CancelToken()

    def stop(_):
        if not stopped:
            stopped.append(rig.arm.stop("operator"))

    result = rig.arm.run(FAR, cancel=token, on_feedback=stop)
    assert stopped == [True]
    assert (result.outcome, result.reason) == (Outcome.FAULT, "stopped")
    assert rig.arm.state().mode is ArmMode.STOPPED
    assert rig.arm.state().standstill
    ended = rig.clock.now()
    refused = rig.arm.run(Home())
    assert refused.reason == "stopped"
    assert "operator" in refused.message
    assert "/arm/clear_stop" in refused.message
    with pytest.raises(ChunkRefused, match="clear_stop"):
        rig.arm.send_chunk(rig.line([0.4, 0.0, 0.4]))
    rig.clock.sleep(1.0)
    assert sent_after(rig, ended) == 0.0
    rig.arm.clear_stop()
    assert rig.arm.run(Home()).reached


def test_a_stop_that_is_not_confirmed_says_so_and_cannot_be_cleared(rig):
    rig.servo.ignore_stop = True
    assert rig.arm.stop("operator") is False
    assert rig.servo.halts > 0
    with pytest.raises(Rejected, match="stand still"):
        rig.arm.clear_stop()


def test_stop_works_when_the_control_loop_is_dead(rig):
    rig.arm.run(Home())
    rig.clock._jobs.clear()
    rig.clock.sleep(1.0)
    assert rig.arm.run(Home()).reason == "control_loop"
    halts = rig.servo.halts
    assert rig.arm.stop("operator") is True
    assert rig.servo.halts == halts + 1


def test_shutdown_ends_the_goal_with_a_result(rig):
    """C35."""
    result, _ = fault_during(rig, rig.arm.close)
    assert (result.outcome, result.reason) == (Outcome.FAULT, "shutdown")
    assert rig.servo.closed


def test_a_bug_in_a_target_does_not_kill_the_loop(rig):
    rig.arm._stream.target = lambda now: 1 / 0
    rig.arm.send_chunk(rig.line([0.4, 0.0, 0.4]))
    rig.clock.sleep(0.2)
    assert rig.arm.report().stream.refused.startswith("internal_error")
    assert rig.arm.run(Home()).reached


# -- the robot's clock --------------------------------------------------------------------------------------------
def test_a_robot_that_runs_slowly_and_whose_clock_steps_back_is_never_sent_more_periods_than_passed_for_it(rig):
    """Found on a starved machine: each step back let the reference run ahead, up to three times the speed limit."""
    begin = rig.clock.now()

    def quarter_speed_sawtooth(now):
        slow = begin + 0.25 * (now - begin)
        return slow + (0.01 if (now - begin) % 0.04 < 0.02 else 0.0)

    rig.servo.robot_clock = quarter_speed_sawtooth
    result = rig.arm.run(MoveTo(np.array([0.5, 0.2, 0.3]), timeout_s=60.0))
    passed = 0.25 * (rig.clock.now() - begin)
    assert result.outcome is Outcome.COMPLETED, result
    assert 10 < len(rig.servo.sent) <= passed / 0.018 + 2  # a period is 20 ms, 2 ms early at the most


def test_franky_servo_tells_a_clock_that_never_goes_back():
    pytest.importorskip("franky")
    from vlatools.core import ManualClock
    from vlatools.robot.config import ArmConfig
    from vlatools.robot.franky_servo import FrankyServo

    clock = ManualClock()
    servo = FrankyServo("127.0.0.1", ArmConfig(), clock)
    try:
        servo._robot_time, servo._robot_time_read = 5.0, clock.now()
        clock.advance(0.004)
        assert servo.robot_time() == pytest.approx(5.004)
        servo._robot_time, servo._robot_time_read = 5.001, clock.now()  # the robot was slower than foreseen
        assert servo.robot_time() == pytest.approx(5.004)
        clock.advance(1.0)
        assert servo.robot_time() == pytest.approx(5.006)  # and is not taken to run on for ever
    finally:
        servo.close()
