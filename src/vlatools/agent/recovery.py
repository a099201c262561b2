"""Between invocations: waiting for the arm, opening the gripper, getting out of the camera's way."""

from __future__ import annotations

from collections.abc import Callable

from vlatools.agent.config import AgentConfig
from vlatools.agent.ports import AgentArm
from vlatools.core import ArmFault, CancelToken, Clock, Outcome, StaleData
from vlatools.robot.ports import ArmMode, ArmState, Home, Primitive, Release, Retreat

_POLL_S = 0.05
_PERSON = {ArmMode.STOPPED: "/arm/stop is latched", ArmMode.USER_STOPPED: "the user stop is pressed"}


class ArmKeeper:
    """Brings the arm into a state from which the next step can start. Every wait is bounded, all waits together."""

    def __init__(
        self, arm: AgentArm, clock: Clock, config: AgentConfig, cancel: CancelToken, guard: Callable[[], None]
    ) -> None:
        """``guard`` raises when the task must end; it is looked at in every wait."""
        self._arm = arm
        self._clock = clock
        self._config = config
        self._cancel = cancel
        self._guard = guard
        self._waited_s = 0.0

    def wait_ready(self) -> ArmState:
        """State of an arm that accepts goals.

        Raises:
            ArmFault: a person's stop, an error that may not be cleared, or the wait is used up.
            StaleData: no state came within the wait.
        """
        recovered = False
        while True:
            self._guard()
            problem: Exception
            try:
                state = self._arm.state()
                if state.ready:
                    return state
                if state.mode in _PERSON:
                    raise ArmFault("stopped", f"{_PERSON[state.mode]}: a person must clear it, then run the task again")
                if state.mode is ArmMode.REFLEX and not recovered:
                    recovered = True
                    self._arm.recover()
                    continue
                problem = ArmFault(
                    "not_ready",
                    f"the arm is not ready ({state.reason}) after {self._waited_s:.1f} s of waiting, "
                    f"the limit is {self._config.ready_wait_s:.1f} s: see /arm/state",
                )
            except StaleData as error:
                problem = error
            if self._waited_s >= self._config.ready_wait_s:
                raise problem
            self.pause(_POLL_S)

    def pause(self, seconds: float) -> None:
        """Wait, at the expense of the task's waiting time."""
        self._clock.sleep(seconds)
        self._waited_s += seconds

    @property
    def patience_s(self) -> float:
        """Waiting time that is left."""
        return max(0.0, self._config.ready_wait_s - self._waited_s)

    def open_if_narrow(self) -> None:
        """Open an empty gripper for the next reach."""
        state = self.wait_ready()
        if not state.gripper_holding and not state.gripper_width >= self._config.open_width:
            self.let_go()

    def let_go(self) -> None:
        """Open the gripper, whatever is in it."""
        self._run(Release())

    def retreat(self) -> None:
        """Up and out of the way."""
        if self._config.retreat_m > 0:
            self._run(Retreat(self._config.retreat_m))

    def home(self) -> None:
        """Out of the camera's view."""
        self._run(Home())

    def settle_grip(self, holding: bool) -> ArmState:
        """Newest state, once the gripper reports ``holding`` or the lag is over."""
        deadline = self._clock.now() + self._config.grip_settle_s
        while True:
            state = self.wait_ready()
            if state.gripper_holding == holding or self._clock.now() >= deadline:
                return state
            self._clock.sleep(_POLL_S)

    def standstill(self) -> bool:
        """Whether the arm is measured to stand still within the configured wait. Looks at no cancel."""
        deadline = self._clock.now() + self._config.standstill_wait_s
        while True:
            try:
                if self._arm.state().standstill:
                    return True
            except StaleData:
                pass  # unknown is not standing still; the deadline bounds the wait
            if self._clock.now() >= deadline:
                return False
            self._clock.sleep(_POLL_S)

    def _run(self, primitive: Primitive) -> None:
        self.wait_ready()
        result = self._arm.run(primitive, self._cancel)
        self._guard()
        if result.outcome is Outcome.FAULT:
            self.wait_ready()  # recovers what may be recovered, else raises with the cause
