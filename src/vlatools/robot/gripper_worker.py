"""A gripper that never blocks its caller, over a driver that does: one thread commands, one measures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from vlatools.core import ArmFault, Clock
from vlatools.robot.ports import GripperDriver, GripperState, GripperStatus

_LOG = logging.getLogger(__name__)
_DEADLINE_S = 5.0  # the Franka Hand needs 1.6 s from closed to open at its slow speed


@dataclass
class _Command:
    number: int
    words: str
    work: Callable[[], bool]
    deadline: float


class GripperWorker:
    """Implements the ``Gripper`` port.

    A command that the driver does not finish in time is given up with ``gripper_timeout``; its late result is discarded.
    A newer command waits for the driver to return from the one before and has its own deadline.

    Args:
        driver: blocking; its ``read`` runs beside a blocked command, everything else one after the other.
        clock: stamps and deadlines.
        read_rate_hz: how often to measure.
        deadline_s: longest command.
    """

    def __init__(
        self, driver: GripperDriver, clock: Clock, read_rate_hz: float, deadline_s: float = _DEADLINE_S
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._period = 1.0 / read_rate_hz
        self._deadline = deadline_s
        self._wake = threading.Condition()
        self._state: GripperState | None = None
        self._current: _Command | None = None  # newest command, until it has ended
        self._pending: _Command | None = None  # newest command, until the driver takes it
        self._error = ""
        self._number = 0
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._command_loop, daemon=True, name="gripper-command"),
            threading.Thread(target=self._read_loop, daemon=True, name="gripper-read"),
        ]
        for thread in self._threads:
            thread.start()

    def status(self) -> GripperStatus:
        """Cached status."""
        with self._wake:
            current = self._current
            if current is not None and self._clock.now() > current.deadline:
                self._error = (
                    f"gripper_timeout: {current.words} did not end within {self._deadline:.1f} s: check the gripper"
                )
                self._current = self._pending = None
            return GripperStatus(self._state, self._current is not None, self._number, self._error)

    def move(self, width: float, speed: float) -> int:
        """Begin moving; command id."""
        return self._begin(f"move to {1000 * width:.1f} mm", lambda: self._driver.move(width, speed))

    def grasp(self, force: float, speed: float) -> int:
        """Begin grasping; command id. The firmware's own opinion of success is ignored: width and force decide."""

        def work() -> bool:
            self._driver.grasp(force, speed)
            return True

        return self._begin(f"grasp with {force:.0f} N", work)

    def stop(self) -> None:
        """Give up the running command."""
        with self._wake:
            running = self._current is not None
            self._current = self._pending = None
        if running:
            self._interrupt()

    def close(self) -> None:
        """End the worker; a command that hangs is left behind."""
        self._closed.set()
        with self._wake:
            self._current = self._pending = None
            self._wake.notify_all()
        for thread in self._threads:
            thread.join(timeout=0.3)

    def _begin(self, words: str, work: Callable[[], bool]) -> int:
        with self._wake:
            replaces = self._current is not None
            self._number += 1
            command = _Command(self._number, words, work, self._clock.now() + self._deadline)
            self._current = self._pending = command
            self._error = ""
            self._wake.notify_all()
        if replaces:
            self._interrupt()
        return command.number

    def _interrupt(self) -> None:
        """Ask the driver to stop, beside the command that blocks; it may have no effect."""

        def work() -> None:
            try:
                self._driver.stop()
            except Exception as error:
                _LOG.info("gripper stop: %s", error)

        threading.Thread(target=work, daemon=True, name="gripper-stop").start()

    def _command_loop(self) -> None:
        while not self._closed.is_set():
            with self._wake:
                while self._pending is None and not self._closed.is_set():
                    self._wake.wait(0.5)
                command, self._pending = self._pending, None
            if command is None:
                continue
            try:
                error = "" if command.work() else f"gripper_failed: the gripper refused to {command.words}"
            except ArmFault as fault:
                error = f"{fault.reason}: {fault}"
            except Exception as failure:  # whatever a driver raises is the command's error, not the worker's end
                error = f"gripper_error: {command.words}: {type(failure).__name__}: {failure}"
            with self._wake:
                if self._current is not None and self._current.number == command.number:
                    self._current, self._error = None, error

    def _read_loop(self) -> None:
        failing = False
        while not self._closed.is_set():
            try:
                state = self._driver.read()
                failing = False
                with self._wake:
                    self._state = state
            except Exception as error:
                if not failing:
                    _LOG.warning("gripper: %s", error)
                failing = True
            self._closed.wait(self._period)
