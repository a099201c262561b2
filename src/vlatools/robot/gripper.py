"""What the arm does with its gripper: the column of chunks, and whether something is held, judged by width and force."""

from __future__ import annotations

import math

from vlatools.robot.config import GripperConfig
from vlatools.robot.fr3 import MAX_OPENING
from vlatools.robot.ports import Gripper, GripperStatus


class GripperControl:
    """Commands to the gripper and the judgement of what it holds. Never blocks."""

    def __init__(self, gripper: Gripper, config: GripperConfig, hysteresis: float) -> None:
        self._gripper = gripper
        self._config = config
        self._hysteresis = hysteresis
        self._column: float | None = None  # opening that the stream asked for last
        self._opening = MAX_OPENING  # opening when the last grasp began

    def status(self) -> GripperStatus:
        """Cached status of the gripper."""
        return self._gripper.status()

    @property
    def width(self) -> float:
        """Measured full opening, m; NaN before the first measurement."""
        state = self._gripper.status().state
        return state.width if state is not None else math.nan

    def holds(self, min_width: float | None = None) -> bool:
        """Something is held: the grasp's force is on, and the width lies between empty and where the grasp began."""
        status = self._gripper.status()
        if status.state is None or status.busy or not status.state.force_on:
            return False
        least = self._config.min_width if min_width is None else min_width
        return least < status.state.width < self._opening

    def move(self, width: float, speed: float | None = None) -> int:
        """Begin moving to ``width`` m; command id."""
        self._column = None
        return self._gripper.move(width, self._config.speed if speed is None else speed)

    def grasp(self, force: float | None = None, speed: float | None = None) -> int:
        """Begin closing with force; command id."""
        self._column = None
        width = self.width
        self._opening = width if math.isfinite(width) else MAX_OPENING
        return self._gripper.grasp(
            self._config.force if force is None else force, self._config.speed if speed is None else speed
        )

    def stop(self) -> None:
        """Give up the running command."""
        self._gripper.stop()

    def follow(self, opening: float) -> None:
        """Obey a chunk's column: act only on a change beyond the hysteresis; closing grasps, opening moves."""
        opening = min(max(opening, 0.0), MAX_OPENING)
        if self._column is not None and abs(opening - self._column) <= self._hysteresis:
            return
        width = self.width
        if not math.isfinite(width):
            return  # the first measurement decides whether this is a change
        if abs(opening - width) > self._hysteresis:
            if opening > width:
                self.move(opening)
            elif not self.holds():
                self.grasp()
        self._column = opening

    def forget_column(self) -> None:
        """A new stream compares its column with the measured width."""
        self._column = None

    def close(self) -> None:
        """End the gripper's worker."""
        self._gripper.close()
