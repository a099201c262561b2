"""The joint reference: whatever the targets are, what is sent stays within every limit.

A tracking law turns targets into a reference of limited velocity, acceleration and jerk. A candidate is taken over only
if the stop that begins with it stays within all guards; otherwise the stop that was checked one period before is
followed. By induction every reference that is ever sent, and the stop after it, are within the limits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vlatools.robot.config import ArmConfig
from vlatools.robot.limits import Guards
from vlatools.robot.profile import StopProfile

Vector = NDArray[np.float64]

_KV_PERIODS = 0.7  # share of a velocity error that one period of acceleration would remove
_ACCELERATION_SHARE = 0.6  # of the limit, planned for stopping at the target; the rest is for corrections
_VELOCITY_SHARE = 0.97  # of the limit, asked for; the rest is for overshoot


class Reference:
    """Reference state q, v, a (7,) rad, rad/s, rad/s^2, advanced by one control period per call."""

    def __init__(self, config: ArmConfig, guards: Guards) -> None:
        self._dt = config.period_s
        self._guards = guards
        self._v_max = config.velocity_limits
        self._a_max = np.full(7, config.speed.joint_acceleration)
        self._j_max = np.full(7, config.speed.joint_jerk)
        self._kv = _KV_PERIODS / self._dt
        self._kp = self._kv / 4  # critically damped
        self._grid: Vector = np.asarray(self._dt * np.arange(1, 1 + math.ceil(10.0 / self._dt)), dtype=np.float64)
        self.q, self.v, self.a = np.zeros(7), np.zeros(7), np.zeros(7)

    def reset(self, q: Vector) -> None:
        """Begin at rest at ``q``."""
        self.q, self.v, self.a = np.array(q, dtype=float), np.zeros(7), np.zeros(7)

    @property
    def at_rest(self) -> bool:
        """The reference does not move."""
        return not (self.v.any() or self.a.any())

    def track(self, target: Vector, velocity: Vector) -> tuple[str, str]:
        """One period towards ``target`` (7,) rad, due at the end of the period and moving at ``velocity`` (7,) rad/s.

        Returns:
            ("", ""), or (guard, explanation) when a limit made the arm brake instead.
        """
        error = target - velocity * self._dt - self.q
        reserve = _ACCELERATION_SHARE * self._a_max
        corner = reserve / self._kp
        approach = np.sign(error) * (np.sqrt(corner**2 + 2 * reserve * np.abs(error)) - corner)
        wanted = np.clip(velocity + approach, -_VELOCITY_SHARE * self._v_max, _VELOCITY_SHARE * self._v_max)
        acceleration = np.clip(self._kv * (wanted - self.v), -self._a_max, self._a_max)
        jerk = np.clip((acceleration - self.a) / self._dt, -self._j_max, self._j_max)
        dt = self._dt
        q = self.q + dt * (self.v + dt * (self.a / 2 + dt * jerk / 6))
        v = self.v + dt * (self.a + dt * jerk / 2)
        a = self.a + dt * jerk
        stop = StopProfile(q, v, a, self._a_max, self._j_max)
        stop_q, stop_v, _ = stop.at(self._grid[: 1 + int(stop.duration / dt)])
        name, why = self._guards.violation(np.vstack([self.q, q, stop_q]), np.vstack([self.v, v, stop_v]))
        if name:
            self.brake()
            return name, why
        self.q, self.v, self.a = q, v, a
        return "", ""

    def brake(self) -> None:
        """One period of the fastest stop."""
        if not self.at_rest:
            q, v, a = StopProfile(self.q, self.v, self.a, self._a_max, self._j_max).at(self._grid[:1])
            self.q, self.v, self.a = q[0], v[0], a[0]
