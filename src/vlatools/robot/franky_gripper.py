"""The Franka Hand through franky: a blocking :class:`GripperDriver`."""

from __future__ import annotations

import threading

import franky

from vlatools.core import ArmFault, Clock
from vlatools.robot.fr3 import MAX_OPENING
from vlatools.robot.ports import GripperState

_OPEN_EPSILON = 0.2  # m: any width counts for the firmware, so that it never lets go; we judge by the width


class FrankyGripper:
    """Connects when first used and again after a lost connection.

    Args:
        host: the robot's address.
        clock: stamps.
    """

    def __init__(self, host: str, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._gripper: franky.Gripper | None = None
        self._connecting = threading.Lock()
        self._grasping: bool | None = None  # None: no command yet, the firmware's own flag is all there is

    def read(self) -> GripperState:
        """Measure; blocks up to about 0.1 s. Raises ArmFault(``gripper_disconnected``)."""
        try:
            state = self._connected().state
        except franky.NetworkException as error:
            raise self._lost(error) from error
        grasping = bool(state.is_grasped) if self._grasping is None else self._grasping
        return GripperState(self._clock.now(), float(state.width), grasping)

    def move(self, width: float, speed: float) -> bool:
        """Move to ``width`` m; blocks. Raises ArmFault."""
        self._grasping = False
        try:
            return bool(self._connected().move(min(width, MAX_OPENING), speed / 2))  # franky counts one finger's speed
        except franky.NetworkException as error:
            raise self._lost(error) from error
        except franky.CommandException as error:
            raise ArmFault(
                "gripper_failed", f"move to {1000 * width:.1f} mm at {speed:.3f} m/s: {error}; home it"
            ) from error

    def grasp(self, force: float, speed: float) -> bool:
        """Close with ``force`` N; blocks. Raises ArmFault."""
        try:
            done = bool(self._connected().grasp(0.0, speed / 2, force, _OPEN_EPSILON, _OPEN_EPSILON))
        except franky.NetworkException as error:
            raise self._lost(error) from error
        except franky.CommandException as error:
            raise ArmFault("gripper_failed", f"grasp with {force:.0f} N: {error}; home the gripper") from error
        self._grasping = True
        return done

    def stop(self) -> None:
        """Ask a running command to end."""
        if self._gripper is not None:
            self._gripper.stop()

    def _connected(self) -> franky.Gripper:
        with self._connecting:
            if self._gripper is None:
                try:
                    self._gripper = franky.Gripper(self._host)
                except franky.NetworkException as error:
                    raise ArmFault("gripper_disconnected", f"no Franka Hand at {self._host}: {error}") from error
            return self._gripper

    def _lost(self, error: Exception) -> ArmFault:
        self._gripper = None
        return ArmFault("gripper_disconnected", f"the connection to the Franka Hand at {self._host} was lost: {error}")
