"""Watches the robot: the newest state, standing still, modes, recovery and reconnection.

All methods are called with the arm's lock held, except :meth:`Supervisor.recover` and the background work, which take it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import numpy as np

from vlatools.core import ArmFault, Clock
from vlatools.robot.config import ArmConfig
from vlatools.robot.faults import Recovery, advice, recovery_of
from vlatools.robot.ports import ArmMode, JointServo, RobotState

Background = Callable[[Callable[[], None]], None]
Refusal = tuple[str, str]  # reason, what to do

_LOG = logging.getLogger(__name__)
_DEAD_LOOP_S = 0.3  # a control loop that has not run for this long is not relied on
_AUTO_RECOVER_WINDOW_S = 60.0


class Supervisor:
    """Judges the robot's state and brings the robot back.

    Attributes:
        state: newest usable packet, None before the first.
        maintenance: RECOVERING or DISCONNECTED while the servo does not belong to the control loop.
        latch: why a stop is latched, None if none is.
    """

    def __init__(
        self, servo: JointServo, config: ArmConfig, clock: Clock, background: Background, lock: threading.RLock
    ) -> None:
        self._servo = servo
        self._config = config
        self._clock = clock
        self._background = background
        self._lock = lock
        self.state: RobotState | None = None
        self.maintenance: ArmMode | None = None
        self.latch: str | None = None
        self._still_since: float | None = None
        self._last_tick = -np.inf
        self._recoveries: list[float] = []
        self._reconnect_at = -np.inf
        self._backoff = config.reconnect_min_s
        self._attempting = False
        self._failed: tuple[float, Refusal] | None = None  # when and of what the motion died

    # -- state ----------------------------------------------------------------------------------------------------
    def ticked(self, now: float) -> None:
        """The control loop runs."""
        self._last_tick = now

    def loop_is_dead(self, now: float) -> bool:
        """The control loop has not run for too long to be relied on."""
        return now - self._last_tick > _DEAD_LOOP_S

    def read(self, now: float, reference_rests: bool) -> None:
        """Take the newest packet. Raises ArmFault(``disconnected``)."""
        state = self._servo.read()
        # During recovery the robot reports zeros: such a packet is no measurement.
        if state is not None and np.all(np.isfinite(state.q)) and state.q.any():
            self.state = state
        if self.state is None:
            return
        if not (reference_rests and float(np.abs(self.state.dq).max()) < self._config.settle.standstill_speed):
            self._still_since = None
        elif self._still_since is None:
            self._still_since = now

    def failed(self, fault: ArmFault, now: float) -> None:
        """The motion died. The packet that says so in the robot's own words is yet to come: until then, this is the state."""
        self._failed = (now, (fault.reason, str(fault)))

    def age(self, now: float) -> float:
        """Age of the state, s; infinite before the first."""
        return now - self.state.stamp_s if self.state is not None else np.inf

    def fresh(self, now: float) -> bool:
        """The state is young enough to act on."""
        return self.age(now) <= self._config.state_max_age_s

    def standstill(self, now: float) -> bool:
        """The arm is measured to stand still, by a fresh state."""
        return (
            self.fresh(now)
            and self._still_since is not None
            and now - self._still_since >= self._config.settle.standstill_s
        )

    def forget_standstill(self) -> None:
        """Standstill is to be measured from now on, not before."""
        self._still_since = None

    def problem(self, now: float) -> Refusal | None:
        """Why the robot cannot be driven now, by its own state."""
        state = self.state
        if not self.fresh(now):
            limit = self._config.state_max_age_s
            return (
                "stale_state",
                f"the robot's state is {self.age(now):.2f} s old, the limit is {limit} s: check the connection",
            )
        assert state is not None
        if state.user_stopped:
            return "user_stop", "the user stop button is pressed: release it and send a new goal"
        if state.reflex or state.errors:
            return "reflex", advice(state.errors)
        if self._failed is not None and state.stamp_s <= self._failed[0]:
            return self._failed[1]
        return None

    def mode(self, now: float) -> ArmMode | None:
        """The mode that forbids motion; None when motion is possible."""
        if self.maintenance is not None:
            return self.maintenance
        if self.state is None or not self.fresh(now):
            return ArmMode.DISCONNECTED
        if self.state.user_stopped:
            return ArmMode.USER_STOPPED
        if self.state.reflex or self.state.errors:
            return ArmMode.REFLEX
        return ArmMode.STOPPED if self.latch is not None else None

    def refusal(self, now: float) -> Refusal | None:
        """Why a goal would be refused now and what to do; None when it would be accepted."""
        if self.maintenance is ArmMode.RECOVERING:
            return "recovering", "error recovery is running: wait a few seconds and send the goal again"
        if self.maintenance is ArmMode.DISCONNECTED or self.state is None:
            return "disconnected", "no connection to the robot: check power, cable and FCI; the driver keeps trying"
        if self.loop_is_dead(now):
            return (
                "control_loop",
                f"the control loop has not run for {now - self._last_tick:.2f} s: restart the arm node",
            )
        problem = self.problem(now)
        if problem is None and self.latch is not None:
            return "stopped", f"a stop is latched ({self.latch}): a person clears it with /arm/clear_stop"
        return problem

    # -- connection -----------------------------------------------------------------------------------------------
    def disconnected(self, now: float) -> None:
        """The connection is lost: reconnect from the next period on."""
        self.maintenance = ArmMode.DISCONNECTED
        self._reconnect_at, self._backoff = now, self._config.reconnect_min_s

    def try_reconnect(self, now: float) -> None:
        """Begin an attempt in the background when it is time for one."""
        if self.maintenance is not ArmMode.DISCONNECTED or self._attempting or now < self._reconnect_at:
            return
        self._attempting = True

        def attempt() -> None:
            try:
                self._servo.reconnect()
                connected = True
            except ArmFault as fault:
                _LOG.warning("reconnect: %s", fault)
                connected = False
            with self._lock:
                self._attempting = False
                if connected:
                    self._resume()
                else:
                    self._reconnect_at = self._clock.now() + self._backoff
                    self._backoff = min(2 * self._backoff, self._config.reconnect_max_s)

        self._background(attempt)

    # -- recovery -------------------------------------------------------------------------------------------------
    def may_recover_by_itself(self, now: float) -> bool:
        """Only errors are active that touched nothing, and not too often lately."""
        if self.maintenance is not None or self.state is None or not self.state.errors or self.state.user_stopped:
            return False
        self._recoveries = [t for t in self._recoveries if now - t < _AUTO_RECOVER_WINDOW_S]
        automatic = recovery_of(self.state.errors) is Recovery.AUTOMATIC
        return automatic and len(self._recoveries) < self._config.recover_attempts

    def recover_by_itself(self, now: float) -> None:
        """Begin an automatic recovery in the background."""
        assert self.state is not None
        _LOG.warning("recovering from %s", ", ".join(self.state.errors))
        self._recoveries.append(now)
        self.maintenance = ArmMode.RECOVERING

        def attempt() -> None:
            try:
                self._servo.recover()
            except ArmFault as fault:
                _LOG.error("recovery failed: %s", fault)
            finally:
                with self._lock:
                    self._resume()

        self._background(attempt)

    def begin_recovery(self, allow_collision: bool) -> tuple[str, ...]:
        """Check that a requested recovery is allowed and reserve the servo for it; the names of the errors, () if none.

        Raises:
            ArmFault: no connection, user stop pressed, or an error that this must not clear.
        """
        if self.maintenance is not None or self.state is None:
            mode = (self.maintenance or ArmMode.DISCONNECTED).value
            raise ArmFault("not_possible", f"cannot recover while {mode}: wait until the robot is connected")
        errors = self.state.errors
        if self.state.user_stopped:
            raise ArmFault("user_stop", "the user stop button is pressed: release it first", errors)
        if not errors and not self.state.reflex:
            return ()
        kind = recovery_of(errors)
        if kind is Recovery.MANUAL or (kind is Recovery.COLLISION and not allow_collision):
            raise ArmFault("not_allowed", advice(errors), errors)
        self.maintenance = ArmMode.RECOVERING
        return errors or ("reflex",)

    def recover(self) -> None:
        """Clear the errors after :meth:`begin_recovery`; blocks for seconds, without the lock. Raises ArmFault."""
        try:
            self._servo.recover()
        finally:
            with self._lock:
                self._resume()
        self._clock.sleep(2 * self._config.period_s)
        with self._lock:
            if self.state is not None and (self.state.errors or self.state.reflex):
                raise ArmFault("not_cleared", advice(self.state.errors), self.state.errors)
            self._recoveries.clear()

    def _resume(self) -> None:
        """Give the servo back to the control loop."""
        self.maintenance = None
        self._still_since = None
