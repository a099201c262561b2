"""The proprioceptive state that learned policies read, laid out the same way for training and serving."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vlatools.core import StaleData
from vlatools.robot.ports import ArmState

STATE_LAYOUT = ("x", "y", "z", "qx", "qy", "qz", "qw", "width", "holding", "opening", "fz")


def state_vector(arm: ArmState, opening: float) -> NDArray[np.float64]:
    """Measured state (11,) in the order of ``STATE_LAYOUT``.

    Args:
        arm: measured arm state.
        opening: commanded full opening, m; 0 closes with force.

    Returns:
        Pose of fr3_hand_tcp in fr3_link0 (m, xyzw), measured full opening m, held 0 or 1, ``opening``, external force along base z N.

    Raises:
        StaleData: the gripper's opening is unknown.
    """
    if not math.isfinite(arm.gripper_width):
        raise StaleData("gripper", arm.gripper_age_s, math.inf, "its opening is unknown: check the gripper's connection and home it")
    rest = (arm.gripper_width, float(arm.gripper_holding), opening, arm.wrench[2])
    return np.concatenate([arm.ee.position, arm.ee.quat_xyzw, rest])


class CommandedOpening:
    """The opening that is commanded at an instant: of the row of the last chunk that is due then, and at first what is measured."""

    def __init__(self, arm: ArmState) -> None:
        self._first = 0.0 if arm.gripper_holding else arm.gripper_width
        self._stamp_s, self._dt = 0.0, 1.0
        self._column: NDArray[np.float64] = np.zeros(0)

    def sent(self, stamp_s: float, dt: float, column: NDArray[np.float64]) -> None:
        """A chunk was given to the arm: the time of its observation, seconds between rows, openings (H,) m."""
        if len(self._column):
            self._first = self.at(stamp_s)
        self._stamp_s, self._dt, self._column = stamp_s, dt, np.array(column)

    def at(self, time_s: float) -> float:
        """Commanded opening in metres at a monotonic time."""
        row = math.floor((time_s - self._stamp_s) / self._dt + 1e-9) - 1
        if row < 0 or not len(self._column):
            return self._first
        return float(self._column[min(row, len(self._column) - 1)])
