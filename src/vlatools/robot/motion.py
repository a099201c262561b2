"""Planning of primitives: a straight line, a way through poses or a joint motion becomes a timed joint trajectory.

Everything that can fail is found here, before anything moves: reach, joint limits, workspace, table, self-collision.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Pose, Rejected
from vlatools.core.pose import quat_angle, slerp
from vlatools.robot import fr3
from vlatools.robot.config import ArmConfig
from vlatools.robot.limits import Guards
from vlatools.robot.model import Fr3Model
from vlatools.robot.profile import PathLaw

Vector = NDArray[np.float64]

_SAMPLE_M, _SAMPLE_RAD = 0.01, 0.05  # spacing of path samples
_SAMPLE_JOINT = 0.03  # rad
_CORNER_M = 0.05  # corners between waypoints are rounded within this distance
_CORNER_RAD = 0.3
_PULL = 0.03  # towards the home posture, per sample
_TANGENT, _NORMAL = 0.55, 0.35  # shares of the acceleration limit for speeding up and for following the bend
_RISE_S = 0.1  # acceleration is built up over at least this time
_EDGE = 2e-3  # rad: solutions stay this far from the joint guard's limit


class Trajectory:
    """A timed joint path from rest to rest.

    Attributes:
        duration: s.
        goal_q: last configuration (7,) rad.
        goal: pose of the TCP there.
    """

    def __init__(self, q: Vector, s: Vector, law: PathLaw, goal: Pose) -> None:
        """``q`` (M, 7) at path parameters ``s`` (M,) from 0 to 1."""
        self._q, self._s, self._law = q, s, law
        self._tangent = np.gradient(q, s, axis=0)
        self.duration = law.duration
        self.goal_q = q[-1]
        self.goal = goal

    def at(self, t: float) -> tuple[Vector, Vector]:
        """Joints (7,) rad and velocities (7,) rad/s at time ``t``."""
        s, speed = self._law.at(t)
        i = min(max(int(np.searchsorted(self._s, s, side="right")) - 1, 0), len(self._s) - 2)
        h = self._s[i + 1] - self._s[i]
        u = (s - self._s[i]) / h
        a, b, ta, tb = self._q[i], self._q[i + 1], self._tangent[i] * h, self._tangent[i + 1] * h
        # Cubic Hermite: passes through the samples with a continuous tangent.
        c2, c3 = 3 * (b - a) - 2 * ta - tb, 2 * (a - b) + ta + tb
        return a + u * (ta + u * (c2 + u * c3)), (ta + u * (2 * c2 + u * 3 * c3)) * (speed / h)


class MotionPlanner:
    """Plans for one arm. Keeps scratch memory: one thread at a time."""

    def __init__(self, config: ArmConfig) -> None:
        self._config = config
        self._guards = Guards(config)
        self.model = Fr3Model(config.tcp_z, config.limits.joint_margin + _EDGE)

    def joints(self, start: Vector, goal: Vector, scale: float) -> Trajectory:
        """Straight in joint space from ``start`` to ``goal`` (7,) rad at ``scale`` of the arm's speed.

        Raises:
            Rejected: outside a limit anywhere on the way.
        """
        count = max(4, int(np.ceil(np.abs(goal - start).max() / _SAMPLE_JOINT)))
        s = np.linspace(0.0, 1.0, count + 1)
        q = start + s[:, None] * (goal - start)
        self._check(q)
        still = np.zeros(count)
        return Trajectory(q, s, self._law(q, s, scale, still, still), self.model.pose(goal))

    def through(self, start: Vector, poses: list[Pose], scale: float) -> Trajectory:
        """From configuration ``start`` (7,) straight through ``poses`` of the TCP, corners rounded, to rest at the last.

        Raises:
            Rejected: a pose on the way cannot be reached or is outside a limit; the message says where and by how much.
        """
        way = _sample([self.model.pose(start), *poses])
        speed = self._config.speed
        lengths = np.array([a.distance_to(b) for a, b in itertools.pairwise(way)])
        angles = np.array([a.angle_to(b) for a, b in itertools.pairwise(way)])
        cost = np.maximum(np.maximum(lengths / speed.tcp, angles / speed.rotation), 1e-6)
        s = np.concatenate([[0.0], np.cumsum(cost)]) / cost.sum()
        q = np.empty((len(way), 7))
        q[0] = start
        for index in range(1, len(way)):
            found = self.model.ik(way[index].matrix, q[index - 1], self._config.home, _PULL)
            if not found.ok:
                raise Rejected("unreachable", self._unreachable(way, index, found.q, found.position_error))
            q[index] = found.q
        self._check(q)
        return Trajectory(q, s, self._law(q, s, scale, lengths, angles), poses[-1])

    def _unreachable(self, way: list[Pose], index: int, q: Vector, error: float) -> str:
        room = np.minimum(q - self.model.q_min, self.model.q_max - q)
        joint = int(np.argmin(room))
        at = np.round(way[index].position, 3).tolist()
        words = f"the arm cannot reach {at} m with this orientation ({index / (len(way) - 1):.0%} of the way): "
        if room[joint] < 1e-3:
            limits = f"{fr3.Q_MIN[joint]:.2f} to {fr3.Q_MAX[joint]:.2f}"
            words += f"joint {joint + 1} would leave its limits of {limits} rad, "
        return words + f"{1000 * error:.0f} mm are left: choose a nearer target or another orientation"

    def _check(self, q: Vector) -> None:
        name, why = self._guards.violation(q, np.zeros_like(q))
        if name:
            raise Rejected(name, f"the way there is refused: {why}")

    def _law(self, q: Vector, s: Vector, scale: float, length: Vector, angle: Vector) -> PathLaw:
        """The fastest law within the joint and TCP limits, scaled; ``length`` m and ``angle`` rad (M-1,) per segment."""
        speed = self._config.speed
        tangent = np.gradient(q, s, axis=0)
        slope = np.abs(tangent).max(axis=1) + 1e-9
        bend = np.abs(np.gradient(tangent, s, axis=0)).max(axis=1) + 1e-9
        per_s = np.diff(s)
        reach, turn = _at_samples(length / per_s), _at_samples(angle / per_s)
        v = (0.9 * self._config.velocity_limits / (np.abs(tangent) + 1e-9)).min(axis=1)
        v = np.minimum(v, np.sqrt(_NORMAL * speed.joint_acceleration / bend))
        v = scale * np.minimum(v, np.minimum(speed.tcp / (reach + 1e-9), speed.rotation / (turn + 1e-9)))
        a = np.minimum(speed.tcp_acceleration / (reach + 1e-9), speed.rotation_acceleration / (turn + 1e-9))
        a = scale * np.minimum(a, _TANGENT * speed.joint_acceleration / slope)
        return PathLaw(s, v, a, _RISE_S)


def _at_samples(per_segment: Vector) -> Vector:
    """Values (M,) at the samples: the larger of the segments (M-1,) that meet there."""
    return np.maximum(np.append(per_segment, per_segment[-1]), np.insert(per_segment, 0, per_segment[0]))


def _sample(poses: list[Pose]) -> list[Pose]:
    """Poses along the way through ``poses``, close enough for interpolation, with rounded corners."""
    entry = poses[0]
    way = [entry]
    for index in range(1, len(poses)):
        corner = poses[index]
        if index == len(poses) - 1:
            way += _line(entry, corner)
            break
        before = min(0.5, _share(poses[index - 1], corner))
        after = min(0.5, _share(corner, poses[index + 1]))
        into, out = _mix(corner, poses[index - 1], before), _mix(corner, poses[index + 1], after)
        way += _line(entry, into)
        steps = max(4, len(_line(into, corner)) + len(_line(corner, out)))
        for u in np.linspace(0.0, 1.0, steps + 1)[1:]:
            way.append(_mix(_mix(into, corner, u), _mix(corner, out, u), u))
        entry = out
    return way


def _share(a: Pose, b: Pose) -> float:
    """Share of the segment between two poses that a corner may take."""
    return 1.0 / max(a.distance_to(b) / _CORNER_M, a.angle_to(b) / _CORNER_RAD, 1e-6)


def _mix(a: Pose, b: Pose, share: float) -> Pose:
    return Pose(a.position + share * (b.position - a.position), slerp(a.quat_xyzw, b.quat_xyzw, share))


def _line(a: Pose, b: Pose) -> list[Pose]:
    """Samples after ``a`` up to ``b``."""
    size = max(a.distance_to(b) / _SAMPLE_M, quat_angle(a.quat_xyzw, b.quat_xyzw) / _SAMPLE_RAD)
    count = max(4, int(np.ceil(size)))
    return [_mix(a, b, float(u)) for u in np.linspace(0.0, 1.0, count + 1)[1:]]
