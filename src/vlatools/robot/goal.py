"""One goal of the arm, from acceptance to exactly one terminal state."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from vlatools.core import CancelToken, Outcome
from vlatools.robot.motion import Trajectory
from vlatools.robot.targets import Target, Tolerance


@dataclass(frozen=True)
class End:
    """How a goal ended."""

    outcome: Outcome
    reason: str
    message: str
    reached: bool = False


class Goal:
    """A primitive while it runs. The control loop advances it, the caller waits for its end.

    Attributes:
        name: of the primitive, for messages.
        token: looked at in every control period.
        target: aim, None until it is known.
        trajectory: None until the arm is at rest and the way is planned.
        elapsed: time along the trajectory, s; advances by control periods.
    """

    def __init__(self, name: str, token: CancelToken) -> None:
        self.name = name
        self.token = token
        self.needs_arm = True
        self.target: Target | None = None
        self.trajectory: Trajectory | None = None
        self.tolerance = Tolerance()
        self.elapsed = 0.0
        self.clips = 0
        self._lock = threading.Lock()
        self._end: End | None = None

    def begin(self, trajectory: Trajectory, tolerance: Tolerance) -> None:
        """Set the way; the control loop follows it from its next period on."""
        self.tolerance = tolerance
        self.elapsed = 0.0
        self.trajectory = trajectory

    def finish(self, end: End) -> bool:
        """Set the terminal state; False if it was set before, then nothing changes."""
        with self._lock:
            if self._end is not None:
                return False
            self._end = end
            return True

    @property
    def end(self) -> End | None:
        """The terminal state, None while running."""
        return self._end
