"""Time-parametrised tool paths: a sum of smooth displacements, so that corners blend and a goal can be shifted on the way.

A tool pose is written as seven numbers: x, y, z [m], yaw [rad] of a gripper that points down, and the rotation vector
[rad, tool frame] by which it departs from pointing straight down. In these coordinates displacements add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vlatools.core import Pose
from vlatools.core.pose import down_quat, quat_multiply, wrap_angle
from vlatools.policy.analytic.config import PaceConfig

Vector = NDArray[np.float64]

_TURN_AS_LENGTH = 0.1  # m per rad: how a turn counts in the length of a path


def tool_vector(pose: Pose) -> Vector:
    """The seven numbers (7,) of a tool pose."""
    yaw = pose.yaw
    x, y, z, w = down_quat(yaw)
    departure = quat_multiply((-x, -y, -z, w), pose.quat_xyzw)
    if departure[3] < 0:
        departure = -departure
    length = float(np.linalg.norm(departure[:3]))
    angle = 2.0 * math.atan2(length, float(departure[3]))
    turn = departure[:3] / length * angle if length > 1e-9 else np.zeros(3)
    return np.concatenate([pose.position, [yaw], turn])


def vector_quat(vector: Vector) -> Vector:
    """Orientation xyzw (4,) of a tool vector (7,)."""
    angle = float(np.linalg.norm(vector[4:7]))
    if angle < 1e-9:
        return down_quat(float(vector[3]))
    axis = vector[4:7] / angle
    turn = np.concatenate([axis * math.sin(angle / 2), [math.cos(angle / 2)]])
    return quat_multiply(down_quat(float(vector[3])), turn)


def downward(position: ArrayLike, yaw: float, tilt: float = 0.0) -> Vector:
    """Tool vector (7,) at ``position`` (3,) with the gripper pointing down, but for ``tilt`` rad about its own x axis."""
    return np.concatenate([np.asarray(position, dtype=float), [yaw, tilt, 0.0, 0.0]])


def nearest_turn(yaw: float, reference: float, period: float = 2 * math.pi) -> float:
    """``yaw`` shifted by multiples of ``period`` as near to ``reference`` as possible."""
    return yaw + period * round((reference - yaw) / period)


@dataclass(frozen=True)
class _Move:
    """One displacement: raised-cosine ramps of ``ramp_s`` around a constant speed."""

    start_s: float
    duration_s: float
    ramp_s: float
    delta: Vector

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s

    def share(self, t: Vector) -> Vector:
        """Share (N,) of the displacement done at times (N,)."""
        tau = np.clip(t - self.start_s, 0.0, self.duration_s)
        ramp = self.ramp_s

        def rise(u: Vector) -> Vector:
            u = np.clip(u, 0.0, ramp)
            return 0.5 * (u - ramp / math.pi * np.sin(math.pi * u / ramp))

        middle = np.clip(tau - ramp, 0.0, self.duration_s - 2 * ramp)
        down = tau - (self.duration_s - ramp)
        fall = np.where(down > 0, np.clip(down, 0, ramp) - rise(down), 0.0)
        return (rise(tau) + middle + fall) / (self.duration_s - ramp)


def _timing(distance: float, speed: float, acceleration: float, ramp_s: float) -> tuple[float, float]:
    """Duration and ramp of a displacement; short ones ramp faster, never above the acceleration."""
    if distance <= 0:
        return 0.0, 0.0
    ramp = max(ramp_s, math.pi * speed / (2 * acceleration))
    if distance < speed * ramp:
        ramp = math.sqrt(math.pi * distance / (2 * acceleration))
        return 2 * ramp, ramp
    return distance / speed + ramp, ramp


class ToolPath:
    """A path that starts at ``start`` (7,) at rest at time ``start_s`` and is extended by way-points."""

    def __init__(self, start: Vector, start_s: float, pace: PaceConfig) -> None:
        self._start = np.array(start, dtype=float)
        self._pace = pace
        self._moves: list[_Move] = []
        self.start_s = start_s
        self.goal = np.array(start, dtype=float)
        self._table: tuple[Vector, Vector, Vector] | None = None

    def go(self, waypoint: Vector, speed: float | None = None, blend: bool = True) -> ToolPath:
        """Go on to ``waypoint`` (7,); with ``blend`` the corner before it is rounded."""
        waypoint = np.array(waypoint, dtype=float)
        waypoint[3] = self.goal[3] + wrap_angle(float(waypoint[3] - self.goal[3]))
        move = self._move(waypoint - self.goal, self.end_s, speed)
        if move is None:
            return self
        if blend and self._moves:
            last = self._moves[-1]
            early = min(last.ramp_s, move.ramp_s)
            move = _Move(move.start_s - early, move.duration_s, move.ramp_s, move.delta)
        self._append(move)
        return self

    def shift(self, delta: Vector, now_s: float) -> None:
        """Shift the goal by ``delta`` (7,), smoothly from ``now_s`` on; what is planned goes on beside."""
        move = self._move(np.asarray(delta, dtype=float), now_s, None)
        if move is not None:
            self._append(move)

    def cut(self, now_s: float) -> None:
        """End the path where it is at ``now_s``."""
        here = self.at(np.array([now_s]))[0]
        self._start, self._moves, self.goal, self._table = here, [], np.array(here), None
        self.start_s = now_s

    @property
    def end_s(self) -> float:
        """Time at which the goal is reached."""
        return max([self.start_s, *(move.end_s for move in self._moves)])

    def at(self, times: Vector) -> Vector:
        """Tool vectors (N, 7) at times (N,)."""
        times = np.asarray(times, dtype=float)
        out = np.tile(self._start, (len(times), 1))
        for move in self._moves:
            out += move.share(times)[:, None] * move.delta
        return out

    def poses(self, times: Vector) -> Vector:
        """Positions and orientations (N, 7) at times (N,): x y z qx qy qz qw."""
        return np.array([np.concatenate([v[:3], vector_quat(v)]) for v in self.at(times)])

    def wait_for(self, measured: Vector, now_s: float, lead: float, lead_s: float) -> bool:
        """Put off what is left when the tool is behind: the path runs at most ``lead`` m or else ``lead_s`` s ahead of it.

        A slow or held-up arm is waited for, so that targets never run away from it. True when it was put off.
        """
        ahead = self.at(np.array([now_s]))[0] - measured
        distance = float(np.linalg.norm(ahead[:3])) + _TURN_AS_LENGTH * abs(wrap_angle(float(ahead[3])))
        if distance <= lead:
            return False
        times, _, _ = self._sampled()
        late = min(now_s, self.end_s) - float(times[self._nearest(measured)]) - lead_s
        if late <= 0:
            return False
        self._moves = [replace(move, start_s=move.start_s + late) for move in self._moves]
        self.start_s += late
        self._table = None
        return True

    def project(self, measured: Vector) -> tuple[float, float]:
        """Share of the path's length behind the measured tool vector (7,), 0 to 1, and the distance from the path in m."""
        _, points, lengths = self._sampled()
        best = self._nearest(measured)
        away = float(np.linalg.norm(points[:, :3] - measured[:3], axis=1).min())
        return (float(lengths[best] / lengths[-1]) if lengths[-1] > 1e-6 else 1.0), away

    def _nearest(self, measured: Vector) -> int:
        """Index of the sample that is nearest to the measured tool vector (7,)."""
        _, points, _ = self._sampled()
        offsets = points[:, :3] - measured[:3]
        turns = _TURN_AS_LENGTH * (points[:, 3] - nearest_turn(float(measured[3]), float(points[-1, 3])))
        distances = np.sqrt((offsets**2).sum(axis=1) + turns**2)
        # Where the path crosses itself the later branch would be a jump ahead: prefer the first nearest point.
        return int(np.argmin(np.round(distances, 4)))

    def _sampled(self) -> tuple[Vector, Vector, Vector]:
        if self._table is None:
            count = max(2, int((self.end_s - self.start_s) / 0.03) + 2)
            times = np.linspace(self.start_s, self.end_s, count)
            points = self.at(times)
            steps = np.diff(points, axis=0)
            length = np.sqrt((steps[:, :3] ** 2).sum(axis=1) + (_TURN_AS_LENGTH * steps[:, 3]) ** 2)
            self._table = times, points, np.concatenate([[0.0], np.cumsum(length)])
        return self._table

    def _move(self, delta: Vector, start_s: float, speed: float | None) -> _Move | None:
        pace = self._pace
        linear = _timing(float(np.linalg.norm(delta[:3])), speed or pace.speed, pace.acceleration, pace.ramp_s)
        turn = abs(float(delta[3])) + float(np.linalg.norm(delta[4:7]))
        angular = _timing(turn, pace.turn_speed, pace.turn_acceleration, pace.ramp_s)
        # One profile for both: the longer ramp and the longer time at full speed keep either within its pace.
        ramp = max(linear[1], angular[1])
        duration = max(linear[0] - linear[1], angular[0] - angular[1]) + ramp
        return _Move(start_s, duration, ramp, delta) if duration > 1e-6 else None

    def _append(self, move: _Move) -> None:
        self._moves.append(move)
        self.goal = self.goal + move.delta
        self._table = None
