"""ToolExecutor: one bounded invocation, from the first observation to its outcome.

The same code runs in the tools node, in lock-step simulation and in tests; clock, arm, camera and inference are injected.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import NoReturn, TypeVar

from vlatools.camera.ports import RgbdCamera
from vlatools.core import (
    ActionChunk,
    ArmFault,
    CancelToken,
    ChunkRefused,
    Clock,
    ConfigError,
    Feedback,
    Invocation,
    InvocationResult,
    Outcome,
    Pose,
    ProgressMonitor,
    ProgressSample,
    Rejected,
    StaleData,
    Verdict,
)
from vlatools.policy.ports import Observation, Policy, PolicyOutput, PolicySession
from vlatools.robot.ports import Arm, ArmMode, ArmState
from vlatools.tools.checks import StageFacts, check_stage
from vlatools.tools.config import ToolsConfig
from vlatools.tools.inference import Inference, InlineInference, Ticket
from vlatools.tools.run import Ended, Run

log = logging.getLogger(__name__)
T = TypeVar("T")

_SIGN_OF_LIFE_S = 0.5  # feedback comes at least this often while an invocation runs
_LATE_REPLY_S = 1.0
_FAULT_MODES = frozenset({ArmMode.DISCONNECTED, ArmMode.REFLEX, ArmMode.USER_STOPPED, ArmMode.STOPPED, ArmMode.RECOVERING})


class ToolExecutor:
    """Runs invocations one at a time.

    Args:
        policy: executes the families of its manifest.
        arm: moves by chunks.
        camera: front camera, or None when the policy needs none.
        camera_to_base: pose of the camera's optical frame in fr3_link0.
        clock: the only source of time.
        config: executor settings, stage checks, monitor thresholds.
        inference: where the policy computes.
    """

    def __init__(
        self,
        policy: Policy,
        arm: Arm,
        camera: RgbdCamera | None,
        camera_to_base: Pose,
        clock: Clock,
        config: ToolsConfig | None = None,
        inference: Inference | None = None,
    ) -> None:
        if policy.manifest.cameras and camera is None:
            raise ConfigError(f"policy {policy.manifest.name} needs cameras {list(policy.manifest.cameras)}, none is given")
        self.policy = policy
        self.config = config or ToolsConfig()
        self._arm = arm
        self._camera = camera
        self._camera_to_base = camera_to_base
        self._clock = clock
        self._inference = inference or InlineInference()

    def execute(
        self,
        invocation: Invocation,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[Feedback], None] | None = None,
    ) -> InvocationResult:
        """Run one invocation to its end. Never raises for what can go wrong on a robot: that is an outcome.

        Args:
            invocation: what to do.
            cancel: latch, looked at before the first command and in every period.
            on_feedback: called from this thread with progress reports.
        """
        run = Run(invocation, cancel or CancelToken(), on_feedback, self._clock.now())
        session: PolicySession | None = None
        try:
            self._admit(run)
            session = self._begin(run)
            self._loop(run, session)
        except Ended as end:
            ended = end
        except Rejected as error:
            ended = Ended(Outcome.REJECTED, error.reason, str(error))
        except StaleData as error:
            ended = Ended(Outcome.STALE_OBSERVATION, error.source, str(error))
        except ArmFault as error:
            ended = Ended(Outcome.FAULT, error.reason, str(error))
        except Exception as error:
            log.exception("invocation %s broke", invocation.id)
            ended = Ended(Outcome.FAULT, "internal_error", f"{type(error).__name__}: {error}")
        run.ended = True
        try:
            return self._finish(run, ended)
        finally:
            if session is not None:
                self._close(session)

    # -- the stages ---------------------------------------------------------------------------------------------------

    def _admit(self, run: Run) -> None:
        """Refuse what cannot be served, with the reason and what to do."""
        manifest = self.policy.manifest
        family = run.invocation.family
        if family not in manifest.families:
            served = ", ".join(f.value for f in manifest.families)
            raise Rejected(
                "family_not_served", f"policy {manifest.name} does not serve {family.value}; it serves {served}: use one of them"
            )
        try:
            config = self.config.monitor_of(family).with_overrides(run.invocation.overrides, run.invocation.horizon_s)
        except ConfigError as error:
            raise Rejected("bad_argument", str(error)) from error
        if not self._policy_idle(run):
            raise Rejected("not_ready", "the policy still computes for an earlier invocation: wait, or restart the tools node if it hangs")
        if run.cancel.canceled:
            self._end_canceled(run)
        state = self._state()
        if not state.ready:
            raise Rejected("not_ready", f"the arm is not ready ({state.mode.value}): {state.reason or 'see /arm/state'}")
        run.start = state
        run.monitor = ProgressMonitor(config, run.start_s)

    def _policy_idle(self, run: Run) -> bool:
        """Wait, bounded, for the late reply to an invocation that was given up: a policy never sees two calls at once."""
        deadline = self._clock.now() + _LATE_REPLY_S
        while self._inference.busy:
            if run.cancel.canceled or self._clock.now() >= deadline:
                return run.cancel.canceled
            self._clock.sleep(self.config.executor.period_s)
        return True

    def _begin(self, run: Run) -> PolicySession:
        """First observation; the policy grounds the invocation in it."""
        observation = self._observe(bool(self.policy.manifest.cameras))

        def begin() -> PolicySession:
            session = self.policy.begin(run.invocation, observation)
            if run.ended:  # too late: nobody will use it
                session.close()
            return session

        session = self._await(run, self._inference.submit(begin))
        # Only now does the horizon run: loading weights or looking at the scene is no execution.
        run.useful_s = now = self._clock.now()
        run.monitor = ProgressMonitor(run.monitor.config, now)  # type: ignore[union-attr]
        return session

    def _loop(self, run: Run, session: PolicySession) -> NoReturn:
        """Observe, infer, command, judge; ends by raising."""
        config, clock = self.config.executor, self._clock
        infer_period = 1.0 / self.policy.manifest.rate_hz
        due = clock.now()
        ticket: Ticket[PolicyOutput] | None = None
        observation: Observation | None = None
        while True:
            self._watch(run)
            now = clock.now()
            if ticket is None and now >= due - 1e-6:
                observation = self._observe(self._needs_frame(session))
                ticket = self._inference.submit(lambda seen=observation: session.infer(seen))  # type: ignore[misc]
                due = max(due + infer_period, now)
            if ticket is not None and ticket.done and observation is not None:
                output = self._reply(ticket)
                ticket = None
                self._watch(run)  # a cancel that came while the policy computed is seen before its chunk is sent
                self._apply(run, observation, output)
            else:
                self._judge(run, self._monitor(run).tick(now))
            if clock.now() - run.useful_s > config.policy_timeout_s:
                raise StaleData(
                    "policy",
                    clock.now() - run.useful_s,
                    config.policy_timeout_s,
                    "the policy gave no actions: see its log, its server and its observation filter",
                )
            clock.sleep(config.period_s)

    def _apply(self, run: Run, observation: Observation, output: PolicyOutput) -> None:
        """Send the chunk, feed the monitor."""
        now = self._clock.now()
        run.observation_age_s = now - observation.stamp_s
        run.worst_age_s = max(run.worst_age_s, run.observation_age_s)
        run.phase = output.phase
        run.claims.update(output.measurements or {})
        if output.failed:
            raise Ended(Outcome.STAGNATED, "policy_gave_up", output.failed)
        if output.actions is not None and len(output.actions):
            manifest = self.policy.manifest
            try:
                chunk = ActionChunk(run.invocation.id, run.chunks, manifest.action_space, observation.stamp_s, manifest.dt, output.actions)
                self._arm.send_chunk(chunk)
            except ChunkRefused as error:
                raise self._refused(f"{error.reason}: {error}") from error
            run.chunks += 1
            run.useful_s = now
        self._judge(run, self._monitor(run).update(now, output.progress))

    def _judge(self, run: Run, sample: ProgressSample) -> None:
        """Report the sample; end when the monitor says so."""
        self._report(run, sample)
        numbers = f"progress {sample.smoothed:.2f} after {sample.elapsed_s:.1f} s in phase '{run.phase}'"
        config = self._monitor(run).config
        match sample.verdict:
            case Verdict.ADVANCE:
                self._end_checked(run, numbers)
            case Verdict.REPLAN:
                raise Ended(
                    Outcome.STAGNATED,
                    "no_progress",
                    f"{numbers}: gained {sample.gain:.3f} in {config.stall_window_s:.1f} s, the least is {config.stall_gain:.3f}",
                )
            case Verdict.TIMEOUT if not self.policy.manifest.reports_progress:
                self._end_checked(run, numbers)
            case Verdict.TIMEOUT:
                raise Ended(Outcome.TIMEOUT, "horizon", f"{numbers}: the horizon is {config.horizon_s:.1f} s")

    def _report(self, run: Run, sample: ProgressSample) -> None:
        """Feedback: each fresh sample up to the allowed rate, a sign of life without one, and always the last."""
        since = sample.time_s - run.feedback_s
        due = since >= (1.0 / self.config.executor.feedback_hz if math.isfinite(sample.progress) else _SIGN_OF_LIFE_S)
        if run.on_feedback is not None and (due or sample.verdict is not Verdict.CONTINUE):
            run.feedback_s = sample.time_s
            run.on_feedback(Feedback(run.invocation, sample, run.phase, run.chunks - 1, run.observation_age_s))

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _end_checked(self, run: Run, numbers: str) -> NoReturn:
        """The policy claims success: stop, settle, and let measurement decide."""
        self._arm.hold()
        deadline = self._clock.now() + self.config.executor.check_grace_s
        while True:
            state = self._watch(run)
            assert run.start is not None
            check = check_stage(StageFacts(run.invocation, run.start, state, run.claims, self.config.checks))
            run.checked = check.measurements
            if not check.veto:
                raise Ended(Outcome.COMPLETED, "", numbers)
            if self._clock.now() >= deadline:
                raise Ended(Outcome.STAGNATED, "check_failed", f"{numbers}, but {check.veto}")
            self._clock.sleep(self.config.executor.period_s)

    def _end_canceled(self, run: Run) -> NoReturn:
        if run.cancel.reason == CancelToken.PREEMPT:
            raise Ended(Outcome.PREEMPTED, "preempted", "a newer goal took over")
        raise Ended(Outcome.CANCELED, run.cancel.reason, f"ended on request ({run.cancel.reason})")

    def _finish(self, run: Run, ended: Ended) -> InvocationResult:
        """Stop the arm, measure the end, write the result. Every exit path comes through here."""
        config = self.config.executor
        standstill = self._stand_still(
            run, config.settle_timeout_s if ended.outcome is Outcome.COMPLETED else config.standstill_timeout_s, ended
        )
        try:
            state: ArmState | None = self._arm.state()
        except (StaleData, ArmFault):
            state = None
        return run.result(ended, state, standstill, self._clock.now())

    def _stand_still(self, run: Run, timeout_s: float, ended: Ended) -> bool:
        """Hold and wait. An arm that we never commanded is not touched: another goal may own it."""
        try:
            if run.chunks:
                self._arm.hold()
            elif ended.outcome is Outcome.REJECTED:
                return self._arm.state().standstill
            return self._arm.wait_standstill(timeout_s)
        except Exception as error:  # whatever the transport raises, the answer is: not confirmed
            log.warning("invocation %s: standstill not confirmed: %s", run.invocation.id, error)
            return False

    # -- looking ------------------------------------------------------------------------------------------------------

    def _watch(self, run: Run) -> ArmState:
        """Cancel latch, age and faults of the arm, refusals of our chunks, and whether the arm is still ours."""
        if run.cancel.canceled:
            self._end_canceled(run)
        state = self._state()
        if state.mode in _FAULT_MODES or state.errors:
            names = f" ({', '.join(state.errors)})" if state.errors else ""
            reason = state.mode.value.lower() if state.mode in _FAULT_MODES else "robot_error"
            raise Ended(Outcome.FAULT, reason, f"the arm is {state.mode.value}{names}: {state.reason or 'see /arm/state'}")
        if run.chunks:
            ours = state.stream.invocation_id == run.invocation.id
            if ours and state.stream.refused:
                raise self._refused(state.stream.refused)
            if run.accepted and (not ours or state.mode is ArmMode.MOVING):
                raise Ended(Outcome.PREEMPTED, "arm_taken", "another goal has taken the arm")
            run.accepted = run.accepted or ours
        return state

    @staticmethod
    def _refused(why: str) -> Ended:
        """The arm refused a chunk, or ended the stream, e.g. by its limit of the contact force; ``why`` begins with its reason."""
        reason, _, message = why.partition(": ")
        return Ended(Outcome.FAULT, reason, f"the arm ended the stream: {message or why}")

    def _state(self) -> ArmState:
        state = self._arm.state()
        age, limit = self._clock.now() - state.stamp_s, self.config.executor.arm_state_max_age_s
        if age > limit:
            raise StaleData("arm_state", age, limit, "check the arm node and the connection to the robot")
        return state

    def _observe(self, with_frame: bool) -> Observation:
        state = self._state()
        if not with_frame or self._camera is None:
            return Observation(state.stamp_s, state, None, self._camera_to_base)
        frame = self._camera.latest(self.config.executor.frame_max_age_s)
        return Observation(min(state.stamp_s, frame.stamp_s), state, frame, self._camera_to_base)

    # -- the policy's calls, whatever they raise ----------------------------------------------------------------------

    def _await(self, run: Run, ticket: Ticket[PolicySession]) -> PolicySession:
        """Wait for the policy's first answer, bounded, watching cancel and arm."""
        limit, asked = self.config.executor.begin_timeout_s, self._clock.now()
        while not ticket.done:
            self._watch(run)
            now = self._clock.now()
            self._report(run, ProgressSample(now, now - run.start_s, math.nan, 0.0, math.nan, Verdict.CONTINUE))
            if now - asked > limit:
                raise StaleData("policy", now - asked, limit, "it did not begin: see its log and its server")
            self._clock.sleep(self.config.executor.period_s)
        try:
            return ticket.result()
        except (Rejected, StaleData):
            raise
        except Exception as error:
            raise self._policy_error(error) from error

    def _reply(self, ticket: Ticket[PolicyOutput]) -> PolicyOutput:
        try:
            return ticket.result()
        except StaleData:
            raise
        except Exception as error:
            raise self._policy_error(error) from error

    def _needs_frame(self, session: PolicySession) -> bool:
        try:
            return session.needs_frame()
        except Exception as error:
            raise self._policy_error(error) from error

    def _policy_error(self, error: Exception) -> Ended:
        log.error("policy %s raised", self.policy.manifest.name, exc_info=error)
        return Ended(Outcome.FAULT, "policy_error", f"policy {self.policy.manifest.name} raised {type(error).__name__}: {error}")

    def _close(self, session: PolicySession) -> None:
        """Close now, or after the call that is still running: a policy never sees two calls at once."""
        if self._inference.busy:
            self._inference.submit(session.close)
            return
        try:
            session.close()
        except Exception:
            log.exception("closing the session of policy %s", self.policy.manifest.name)

    @staticmethod
    def _monitor(run: Run) -> ProgressMonitor:
        assert run.monitor is not None  # made on admission
        return run.monitor
