"""Jerk-limited motion laws: the fastest stop of several joints, and the law of motion along a path."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class StopProfile:
    """Brings joints from position q, velocity v, acceleration a to rest, each as fast as its limits allow.

    Each joint runs three phases of constant jerk (+j, 0, -j). The law is optimal, so that a stop begun from any of its
    own states continues it exactly: a stop that was checked stays checked while it is followed.

    Args:
        q, v, a: state (n,) rad, rad/s, rad/s^2, with abs(a) <= a_max.
        a_max, j_max: limits (n,) rad/s^2, rad/s^3.
    """

    def __init__(self, q: Vector, v: Vector, a: Vector, a_max: Vector, j_max: Vector) -> None:
        # Velocity left if the acceleration were faded out at once tells in which direction to brake.
        drift = v + a * np.abs(a) / (2 * j_max)
        sign = np.where(drift > 0, -1.0, 1.0)
        along_a, along_v = sign * a, sign * v  # along the braking direction; the velocity to gain is -along_v
        peak = np.sqrt(np.maximum(0.0, -j_max * along_v + along_a**2 / 2))
        peak = np.clip(peak, np.maximum(along_a, 0.0), a_max)
        first = (peak - along_a) / j_max
        last = peak / j_max
        gained = (2 * peak**2 - along_a**2) / (2 * j_max)
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.where(peak >= a_max * (1 - 1e-12), np.maximum(0.0, (-along_v - gained) / peak), 0.0)
        self._jerk = np.stack([sign * j_max, np.zeros_like(q), -sign * j_max])
        self._ends = np.cumsum(np.stack([first, middle, last]), axis=0)
        self._q, self._v, self._a = np.empty((4, *q.shape)), np.empty((4, *q.shape)), np.empty((4, *q.shape))
        self._q[0], self._v[0], self._a[0] = q, v, a
        for phase, span in enumerate((first, middle, last)):
            self._q[phase + 1], self._v[phase + 1], self._a[phase + 1] = _integrate(
                self._q[phase], self._v[phase], self._a[phase], self._jerk[phase], span
            )
        self.duration = float(self._ends[2].max())

    def at(self, times: Vector) -> tuple[Vector, Vector, Vector]:
        """Positions, velocities, accelerations, each (N, n), at ``times`` (N,) s; at rest after the end."""
        t = times[:, None]
        end1, end2, end3 = self._ends
        q, v, a = _integrate(self._q[0], self._v[0], self._a[0], self._jerk[0], np.minimum(t, end1))
        late = t > end1
        if late.any():
            q2, v2, a2 = _integrate(self._q[1], self._v[1], self._a[1], 0.0, np.minimum(t, end2) - end1)
            q3, v3, a3 = _integrate(self._q[2], self._v[2], self._a[2], self._jerk[2], np.minimum(t, end3) - end2)
            last, rest = t > end2, t >= end3
            q = np.where(last, q3, np.where(late, q2, q))
            v = np.where(rest, 0.0, np.where(last, v3, np.where(late, v2, v)))
            a = np.where(rest, 0.0, np.where(last, a3, np.where(late, a2, a)))
        return q, v, a


def _integrate(q: Vector, v: Vector, a: Vector, jerk: Vector | float, t: Vector) -> tuple[Vector, Vector, Vector]:
    """State after time ``t`` of constant jerk."""
    return q + t * (v + t * (a / 2 + t * (jerk / 6))), v + t * (a + t * (jerk / 2)), a + t * jerk


class PathLaw:
    """Path parameter s over time, from 0 to 1, rest to rest, as fast as limits that vary along the path allow.

    A forward and a backward pass give the fastest speed for the acceleration limit; averaging s over ``rise_s`` then
    bounds the jerk and keeps speed and acceleration within what they were.

    Args:
        s: path parameters (M,) of the samples, 0 to 1, rising.
        v_max, a_max: limits (M,) of ds/dt and its derivative at the samples, above 0.
        rise_s: acceleration is built up over this time, s.
    """

    _GRID = 400
    _STEP_S = 0.004

    def __init__(self, s: Vector, v_max: Vector, a_max: Vector, rise_s: float) -> None:
        grid = np.linspace(0.0, 1.0, self._GRID + 1)
        speed2 = (np.interp(grid, s, v_max) ** 2).tolist()
        gain = (2.0 / self._GRID * np.interp(grid, s, a_max)).tolist()
        speed2[0] = speed2[-1] = 0.0
        for i in range(1, self._GRID + 1):
            speed2[i] = min(speed2[i], speed2[i - 1] + gain[i - 1])
        for i in range(self._GRID - 1, -1, -1):
            speed2[i] = min(speed2[i], speed2[i + 1] + gain[i])
        speed = np.sqrt(speed2)
        times = np.concatenate([[0.0], np.cumsum(2.0 / self._GRID / (speed[1:] + speed[:-1]))])
        window = max(1, round(rise_s / self._STEP_S))
        count = math.ceil(times[-1] / self._STEP_S) + window
        uniform = self._STEP_S * np.arange(1 - window, count + 1)
        # Between grid points the acceleration is constant: interpolate the square of the speed, not s itself.
        index = np.clip(np.searchsorted(times, uniform, side="right") - 1, 0, self._GRID - 1)
        span = times[index + 1] - times[index]
        t = np.clip(uniform - times[index], 0.0, span)
        raw = grid[index] + t * (speed[index] + t * (speed[index + 1] - speed[index]) / (2 * span))
        sums = np.concatenate([[0.0], np.cumsum(raw)])
        self._s = np.clip((sums[window:] - sums[:-window]) / window, 0.0, 1.0)
        self._speed = np.gradient(self._s, self._STEP_S)
        self._speed[0] = 0.0
        self.duration = float(self._STEP_S * (len(self._s) - 1))

    def at(self, t: float) -> tuple[float, float]:
        """(s, ds/dt) at time ``t`` s; (1, 0) from the end on."""
        if t >= self.duration:
            return 1.0, 0.0
        place = max(0.0, t) / self._STEP_S
        i = int(place)
        share = place - i
        return (
            float(self._s[i] + share * (self._s[i + 1] - self._s[i])),
            float(self._speed[i] + share * (self._speed[i + 1] - self._speed[i])),
        )
