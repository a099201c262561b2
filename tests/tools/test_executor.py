"""ToolExecutor: every way in which an invocation can end, and that the arm stands still after each."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.doubles import CAMERA_TO_BASE, FakeArm, FakeCamera, ScriptedPolicy, fault
from vlatools.core import (
    CancelToken,
    ConfigError,
    Family,
    Feedback,
    Invocation,
    ManualClock,
    MonitorConfig,
    MonitorOverrides,
    MonotonicClock,
    Outcome,
    Rejected,
    Verdict,
)
from vlatools.robot.ports import ArmMode
from vlatools.tools import ThreadInference, ToolExecutor, ToolsConfig

FAST = MonitorConfig(stall_window_s=1.5, grace_s=0.5, horizon_s=6.0, smoothing_s=0.2, completion_hold_s=0.1)
CONFIG = ToolsConfig(monitor=dict.fromkeys(Family, FAST))


class Rig:
    """Executor on a manual clock with doubles."""

    def __init__(self, policy: ScriptedPolicy | None = None) -> None:
        self.clock = ManualClock(100.0)
        self.arm = FakeArm(self.clock)
        self.camera = FakeCamera(self.clock)
        self.policy = policy or ScriptedPolicy()
        self.executor = ToolExecutor(self.policy, self.arm, self.camera, CAMERA_TO_BASE, self.clock, CONFIG)
        self.cancel = CancelToken()
        self.feedback: list[Feedback] = []

    def run(self, family: Family = Family.ROTATE, **arguments):
        invocation = Invocation(family, f"{family.value} the red cube", object="red cube", **arguments)
        return self.executor.execute(invocation, self.cancel, self.feedback.append)

    def at(self, seconds: float, action) -> None:
        """Do something ``seconds`` after now, while the arm is being looked at."""
        due, done = self.clock.now() + seconds, []

        def step(_: FakeArm) -> None:
            if self.clock.now() >= due and not done:
                done.append(True)
                action()

        self.arm.on_step = step


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_completes_with_the_numbers_it_was_judged_by(rig: Rig) -> None:
    result = rig.run()
    assert result.outcome is Outcome.COMPLETED, result.message
    assert result.standstill
    assert result.chunks > 3
    assert result.progress >= 0.9
    assert 0.9 < result.duration_s < 2.5
    assert rig.arm.holds >= 1
    assert rig.policy.sessions[0].closed == 1


def test_stagnates_on_flat_progress() -> None:
    rig = Rig(ScriptedPolicy(lambda t: min(0.4, t)))
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, "no_progress")
    assert result.standstill
    assert rig.arm.holds == 1
    assert 2.0 <= result.duration_s <= 3.0


def test_times_out_at_the_horizon() -> None:
    rig = Rig(ScriptedPolicy(lambda t: 0.1 * t))
    result = rig.run(horizon_s=3.0)
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, "horizon")
    assert result.duration_s == pytest.approx(3.0, abs=0.3)


def test_in_place_rotation_with_rising_progress_is_no_stall() -> None:
    """C45."""
    rig = Rig(ScriptedPolicy(lambda t: t / 5.0))
    assert rig.run().outcome is Outcome.COMPLETED


# -- cancel and preempt ---------------------------------------------------------------------------------------------------


def test_a_cancel_before_the_first_command_moves_nothing(rig: Rig) -> None:
    rig.cancel.cancel()
    result = rig.run()
    assert result.outcome is Outcome.CANCELED
    assert result.standstill
    assert not rig.arm.chunks
    assert rig.policy.inferred == 0


@pytest.mark.parametrize(("reason", "outcome"), [(CancelToken.CANCEL, Outcome.CANCELED), (CancelToken.PREEMPT, Outcome.PREEMPTED)])
def test_a_cancel_stops_within_a_period_and_no_command_follows(rig: Rig, reason: str, outcome: Outcome) -> None:
    rig.policy.progress = lambda t: 0.1 * t
    canceled_at = rig.clock.now() + 0.73
    rig.at(0.73, lambda: rig.cancel.cancel(reason))
    result = rig.run()
    assert result.outcome is outcome
    assert result.standstill
    assert max(rig.arm.times) <= canceled_at + CONFIG.executor.period_s
    assert rig.arm.holds == 1


def test_a_cancel_that_arrives_while_the_policy_computes_is_seen_before_its_chunk(rig: Rig) -> None:
    rig.policy.on_infer = lambda: rig.cancel.cancel() if rig.policy.inferred == 3 else None
    result = rig.run()
    assert result.outcome is Outcome.CANCELED
    assert len(rig.arm.chunks) == 2


def test_a_stop_that_cannot_be_measured_is_a_fault_not_canceled(rig: Rig) -> None:
    rig.arm.ignores_stop = True
    rig.at(0.5, rig.cancel.cancel)
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.FAULT, "stop_unconfirmed")
    assert not result.standstill
    assert "CANCELED" in result.measurements["cause"]


def test_the_next_invocation_is_not_touched_by_the_cancel_before(rig: Rig) -> None:
    """C41."""
    rig.at(0.3, rig.cancel.cancel)
    assert rig.run().outcome is Outcome.CANCELED
    rig.cancel = CancelToken()
    assert rig.run().outcome is Outcome.COMPLETED


def test_another_goal_that_takes_the_arm_preempts(rig: Rig) -> None:
    rig.policy.progress = lambda t: 0.1 * t
    rig.at(0.6, lambda: setattr(rig.arm, "other_stream", "someone else"))
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.PREEMPTED, "arm_taken")


# -- rejections -----------------------------------------------------------------------------------------------------------


def test_a_family_that_the_manifest_lacks_is_rejected_with_what_there_is(rig: Rig) -> None:
    result = rig.run(Family.FLIP)
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "family_not_served")
    assert "reach" in result.message
    assert not rig.arm.chunks
    assert rig.arm.holds == 0


def test_an_arm_that_is_not_ready_rejects_with_its_own_advice(rig: Rig) -> None:
    """C54."""
    rig.arm.mode, rig.arm.reason = ArmMode.STOPPED, "clear the stop with /arm/clear_stop"
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "not_ready")
    assert "/arm/clear_stop" in result.message
    assert rig.arm.holds == 0


def test_bad_thresholds_are_rejected(rig: Rig) -> None:
    result = rig.run(overrides=MonitorOverrides(completion_threshold=1.5))
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "bad_argument")
    assert "completion_threshold" in result.message


def test_a_policy_that_rejects_at_its_begin_rejects_the_invocation(rig: Rig) -> None:
    def reject() -> None:
        raise Rejected("not_in_view", "the red cube is not in view")

    rig.policy.on_begin = reject
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "not_in_view")
    assert result.chunks == 0


def test_an_executor_whose_policy_needs_a_camera_does_not_start_without() -> None:
    clock = ManualClock()
    with pytest.raises(ConfigError, match="front"):
        ToolExecutor(ScriptedPolicy(), FakeArm(clock), None, CAMERA_TO_BASE, clock)


# -- faults and stale data ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [ArmMode.REFLEX, ArmMode.USER_STOPPED, ArmMode.STOPPED, ArmMode.DISCONNECTED])
def test_a_fault_of_the_arm_ends_at_once(rig: Rig, mode: ArmMode) -> None:
    rig.policy.progress = lambda t: 0.1 * t

    def strike() -> None:
        rig.arm.mode, rig.arm.errors = mode, ("cartesian_reflex",)

    struck_at = rig.clock.now() + 0.5
    rig.at(0.5, strike)
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.FAULT, mode.value.lower())
    assert "cartesian_reflex" in result.message
    assert max(rig.arm.times) <= struck_at + CONFIG.executor.period_s


def test_a_stale_arm_state_stops_and_says_so(rig: Rig) -> None:
    rig.policy.progress = lambda t: 0.1 * t
    rig.at(0.5, rig.arm.disconnect)
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.FAULT, "stop_unconfirmed")
    assert "arm_state" in result.message
    assert result.measurements["cause"] == "STALE_OBSERVATION: arm_state"


def test_a_frozen_camera_ends_an_invocation_that_looks(rig: Rig) -> None:
    """C56."""
    rig.policy.wants_frames = True
    rig.policy.progress = lambda t: 0.1 * t
    rig.at(0.5, lambda: setattr(rig.camera, "frozen_at", rig.clock.now()))
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.STALE_OBSERVATION, "camera")
    assert result.standstill
    assert rig.arm.holds == 1


def test_a_frozen_camera_does_not_matter_to_a_policy_that_does_not_look(rig: Rig) -> None:
    rig.at(0.3, lambda: setattr(rig.camera, "frozen_at", rig.clock.now()))
    assert rig.run().outcome is Outcome.COMPLETED


def test_a_policy_that_gives_nothing_ends_as_stale(rig: Rig) -> None:
    """C87."""
    rig.policy.acts = False
    rig.policy.progress = lambda t: 0.1 * t
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.STALE_OBSERVATION, "policy")
    assert result.duration_s == pytest.approx(CONFIG.executor.policy_timeout_s, abs=0.2)


def test_a_policy_that_raises_is_a_fault_with_its_words(rig: Rig) -> None:
    def boom() -> None:
        raise ZeroDivisionError("in the head")

    rig.policy.on_infer = boom
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.FAULT, "policy_error")
    assert "ZeroDivisionError: in the head" in result.message


def test_a_policy_that_rejects_in_the_middle_is_a_policy_error(rig: Rig) -> None:
    rig.policy.on_infer = fault("gripper_timeout")
    assert rig.run().reason == "policy_error"


def test_a_policy_that_gives_up_stagnates_with_its_reason(rig: Rig) -> None:
    rig.policy.failed = "the red cube left the view"
    result = rig.run()
    assert (result.outcome, result.reason, result.message) == (
        Outcome.STAGNATED,
        "policy_gave_up",
        "the red cube left the view",
    )


def test_a_refusal_that_is_raised_and_one_that_only_shows_in_the_state_end_alike(rig: Rig) -> None:
    rig.arm.refuse = ("jump", "0.4 m in one step")
    raised = rig.run()
    other = Rig(ScriptedPolicy(lambda t: 0.1 * t))
    other.at(0.5, lambda: other.arm.refuse_later("jump: 0.4 m in one step"))
    shown = other.run()
    assert (raised.outcome, raised.reason) == (shown.outcome, shown.reason) == (Outcome.FAULT, "jump")


def test_broken_actions_never_reach_the_arm(rig: Rig) -> None:
    rig.policy.opening = math.nan
    result = rig.run()
    assert (result.outcome, result.reason) == (Outcome.FAULT, "not_finite")
    assert not rig.arm.chunks


# -- stage checks ---------------------------------------------------------------------------------------------------------


def test_progress_of_an_empty_grasp_is_vetoed_by_the_width(rig: Rig) -> None:
    """C49."""
    rig.policy.opening = 0.0
    result = rig.run(Family.GRASP)
    assert (result.outcome, result.reason) == (Outcome.STAGNATED, "check_failed")
    assert "nothing is held" in result.message
    assert result.progress >= 0.9
    assert not result.gripper_holding


def test_a_grasp_that_holds_completes_even_if_the_hold_shows_late(rig: Rig) -> None:
    rig.arm.graspable = 0.04
    rig.policy.opening = 0.0
    rig.policy.progress = lambda t: 1.0 if t > 0.1 else 0.0  # claims before the fingers have closed
    result = rig.run(Family.GRASP)
    assert result.outcome is Outcome.COMPLETED
    assert result.gripper_holding
    assert result.gripper_width == pytest.approx(0.04)


def test_a_release_that_did_not_open_is_vetoed(rig: Rig) -> None:
    rig.arm.graspable, rig.arm.width, rig.arm._target_width = 0.04, 0.04, 0.0
    rig.policy.opening = 0.0
    assert rig.run(Family.RELEASE).reason == "check_failed"
    rig.policy.opening = 0.07
    assert rig.run(Family.RELEASE).outcome is Outcome.COMPLETED


def test_a_reach_far_from_its_goal_is_vetoed(rig: Rig) -> None:
    rig.policy.claims = {"goal_x": 0.6, "goal_y": 0.2, "goal_z": 0.02}
    result = rig.run(Family.REACH)
    assert result.reason == "check_failed"
    assert "from its goal" in result.message
    assert result.measurements["claimed"]["goal_x"] == 0.6
    assert result.measurements["checked"]["goal_distance"] > 0.1


def test_a_move_that_lost_its_object_is_vetoed(rig: Rig) -> None:
    rig.arm.graspable, rig.arm.width, rig.arm._target_width = 0.04, 0.04, 0.0
    rig.policy.opening = 0.0
    rig.at(0.5, lambda: setattr(rig.arm, "graspable", 0.0))
    result = rig.run(Family.MOVE)
    assert result.reason == "check_failed"
    assert "lost" in result.message


# -- feedback -------------------------------------------------------------------------------------------------------------


def test_feedback_is_bounded_ordered_and_ends_with_the_verdict() -> None:
    """C43."""
    policy = ScriptedPolicy(lambda t: t / 3.0)
    object.__setattr__(policy.manifest, "rate_hz", 1000.0)
    rig = Rig(policy)
    fast = ToolsConfig(executor=type(CONFIG.executor)(period_s=0.002), monitor=CONFIG.monitor)
    rig.executor = ToolExecutor(policy, rig.arm, rig.camera, CAMERA_TO_BASE, rig.clock, fast)
    result = rig.run()
    times = [f.sample.time_s for f in rig.feedback]
    assert len(times) <= 20 * result.duration_s + 2
    assert times == sorted(times)
    assert len(set(times)) == len(times)
    assert rig.feedback[-1].sample.verdict is Verdict.ADVANCE


# -- a policy that computes in its own thread, on the real clock ------------------------------------------------------------


class RealArm(FakeArm):
    """The kinematic arm, locked, for the real clock."""

    def __init__(self) -> None:
        super().__init__(MonotonicClock())  # type: ignore[arg-type]


def test_a_slow_policy_does_not_block_a_cancel_and_its_late_reply_is_discarded() -> None:
    clock, policy = MonotonicClock(), ScriptedPolicy()
    arm, gate, inference = RealArm(), threading.Event(), ThreadInference()
    policy.on_infer = lambda: gate.wait(5.0)
    executor = ToolExecutor(policy, arm, FakeCamera(clock), CAMERA_TO_BASE, clock, CONFIG, inference)  # type: ignore[arg-type]
    token = CancelToken()
    threading.Timer(0.3, token.cancel).start()
    begin = time.monotonic()
    result = executor.execute(Invocation(Family.ROTATE, "rotate"), token)
    assert result.outcome is Outcome.CANCELED
    assert time.monotonic() - begin < 1.0
    again = executor.execute(Invocation(Family.ROTATE, "rotate"))
    assert (again.outcome, again.reason) == (Outcome.REJECTED, "not_ready")  # never two calls in a policy at once
    gate.set()
    deadline = time.monotonic() + 2.0
    while inference.busy and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not arm.chunks
    assert policy.sessions[0].closed == 1
    policy.on_infer = None
    assert executor.execute(Invocation(Family.ROTATE, "rotate")).outcome is Outcome.COMPLETED
    inference.close()


def test_a_policy_that_hangs_ends_as_stale_in_bounded_time() -> None:
    clock, policy, gate = MonotonicClock(), ScriptedPolicy(), threading.Event()
    policy.on_infer = lambda: gate.wait(10.0)
    config = ToolsConfig(executor=type(CONFIG.executor)(policy_timeout_s=0.4), monitor=CONFIG.monitor)
    executor = ToolExecutor(policy, RealArm(), FakeCamera(clock), CAMERA_TO_BASE, clock, config, ThreadInference())  # type: ignore[arg-type]
    result = executor.execute(Invocation(Family.ROTATE, "rotate"))
    gate.set()
    assert (result.outcome, result.reason) == (Outcome.STALE_OBSERVATION, "policy")
    assert result.duration_s < 1.0
    assert result.standstill


# -- whatever happens, one terminal outcome and an arm at rest -----------------------------------------------------------------

EVENTS = ("cancel", "preempt", "reflex", "stuck", "dead", "refuse", "camera", "nothing")


@given(
    event=st.sampled_from(EVENTS),
    when=st.floats(0.0, 2.5),
    slope=st.floats(0.0, 1.5),
    frames=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_any_event_at_any_time_ends_once_and_at_rest(event: str, when: float, slope: float, frames: bool) -> None:
    rig = Rig(ScriptedPolicy(lambda t: min(1.0, slope * t)))
    rig.policy.wants_frames = frames
    actions = {
        "cancel": rig.cancel.cancel,
        "preempt": lambda: rig.cancel.cancel(CancelToken.PREEMPT),
        "reflex": lambda: setattr(rig.arm, "mode", ArmMode.REFLEX),
        "stuck": lambda: setattr(rig.arm, "stuck", True),
        "dead": rig.arm.disconnect,
        "refuse": lambda: rig.arm.refuse_later("jump: too far"),
        "camera": lambda: setattr(rig.camera, "frozen_at", rig.clock.now()),
        "nothing": lambda: None,
    }
    rig.at(when, actions[event])
    result = rig.run()
    allowed = {
        "cancel": {Outcome.CANCELED},
        "preempt": {Outcome.PREEMPTED},
        "reflex": {Outcome.FAULT, Outcome.REJECTED},
        "dead": {Outcome.FAULT, Outcome.REJECTED, Outcome.STALE_OBSERVATION},
        "refuse": {Outcome.FAULT},
        "camera": {Outcome.STALE_OBSERVATION},
    }.get(event, set()) | {Outcome.COMPLETED, Outcome.STAGNATED, Outcome.TIMEOUT}
    assert result.outcome in allowed
    assert result.standstill or result.reason == "stop_unconfirmed" or event == "dead"
    commands = len(rig.arm.chunks)
    rig.clock.sleep(2.0)
    assert len(rig.arm.chunks) == commands
    assert not rig.policy.sessions or all(session.closed == 1 for session in rig.policy.sessions)
    assert np.isfinite(result.duration_s)
