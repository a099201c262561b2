"""One control period of motion: what the goal or the stream aims at becomes the next reference."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from vlatools.robot.config import ArmConfig
from vlatools.robot.goal import Goal
from vlatools.robot.gripper import GripperControl
from vlatools.robot.limits import Guards, TargetClipper
from vlatools.robot.ports import RobotState
from vlatools.robot.reference import Reference
from vlatools.robot.settle import Settle
from vlatools.robot.stream import ChunkStream

Vector = NDArray[np.float64]

_LOG = logging.getLogger(__name__)
_CONTACT_PERIODS = 3  # a contact force must last this many periods
_CONTACT_RISE = 10.0  # N above the force at the start, where a motion begins in contact


class Drive:
    """Reference, stream and end-of-motion correction together. Not thread-safe: the arm holds its lock.

    Attributes:
        reference: what is sent to the servo.
        stream: the chunk stream.
    """

    def __init__(self, config: ArmConfig, gripper: GripperControl) -> None:
        self._config = config
        self._gripper = gripper
        self.reference = Reference(config, Guards(config))
        self.stream = ChunkStream(config, TargetClipper(config))
        self._settle = Settle(config)
        self._blocked = ""  # guard that stops the reference now
        self._contact_periods = 0
        self._contact_base: float | None = None

    def prepare(self) -> None:
        """A new trajectory begins: forget the correction and the contact of the last motion."""
        self._settle.reset()
        self._contact_base = None

    def forget_contact(self) -> None:
        """The next motion measures anew what force there is at its start."""
        self._contact_base = None

    def follow_goal(self, goal: Goal, state: RobotState) -> None:
        """One period along the goal's trajectory; ends the goal when it has arrived."""
        trajectory = goal.trajectory
        assert trajectory is not None
        goal.elapsed += self._config.period_s
        target, velocity = trajectory.at(goal.elapsed)
        if goal.elapsed < trajectory.duration:
            self._settle.relax()
        else:
            self._settle.correct(trajectory.goal_q, state, self.reference)
            end = self._settle.judge(goal, state, self.reference)
            if end is not None:
                goal.finish(end)
        if self._track(target + self._settle.bias, velocity):
            goal.clips += 1

    def follow_stream(self, now: float, state: RobotState) -> None:
        """One period along the stream, gripper included."""
        target, velocity = self.stream.target(now)
        if self.stream.ran_out(now):
            self._settle.correct(target, state, self.reference)
        else:
            self._settle.relax()
        if self._track(target + self._settle.bias, velocity):
            self.stream.count_clip()
        self._gripper.follow(self.stream.gripper(now))

    def brake(self) -> None:
        """One period of stopping, or of holding."""
        self.reference.brake()
        self._contact_base = None

    def contact(self, state: RobotState) -> tuple[str, str] | None:
        """(reason, message) when the external force has been above the limit for some periods."""
        force = float(np.linalg.norm(state.wrench[:3]))
        if self._contact_base is None:
            self._contact_base = force
        limit = max(self._config.limits.contact_force, self._contact_base + _CONTACT_RISE)
        self._contact_periods = self._contact_periods + 1 if force > limit else 0
        if self._contact_periods < _CONTACT_PERIODS:
            return None
        self._contact_periods = 0
        return "contact_force", f"external force {force:.0f} N, the limit is {limit:.0f} N: look what the arm touches"

    def _track(self, target: Vector, velocity: Vector) -> bool:
        """Advance the reference; True when a guard has just begun to stop it."""
        guard, why = self.reference.track(target, velocity)
        begins = bool(guard) and guard != self._blocked
        if begins:
            _LOG.info("%s: %s", guard, why)
        self._blocked = guard
        return begins
