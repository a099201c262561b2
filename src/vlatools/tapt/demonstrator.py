"""A person at the robot, in simulation: the analytic policy with the ways in which people differ from it and from each other."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Family, Invocation
from vlatools.policy.analytic import AnalyticConfig
from vlatools.policy.ports import Manifest, Observation, Policy, PolicyOutput, PolicySession
from vlatools.policy.state import CommandedOpening

_SWAY = 0.012  # m, standard deviation of a detour
_SWAY_FROM, _SWAY_TO = 0.04, 0.12  # m from the goal: no detour nearer than the first, the whole from the second


def temper(config: AnalyticConfig, rng: np.random.Generator) -> AnalyticConfig:
    """One person's habits: pace, heights, how far the hand goes up."""
    pace = dataclasses.replace(
        config.pace,
        speed=float(rng.uniform(0.20, 0.36)),
        acceleration=float(rng.uniform(1.0, 2.0)),
        contact_speed=float(rng.uniform(0.06, 0.1)),
    )
    return dataclasses.replace(
        config,
        pace=pace,
        clearance=float(rng.uniform(0.030, 0.060)),
        hover=float(rng.uniform(0.010, 0.025)),
        lift=float(rng.uniform(0.020, 0.045)),
        retreat=float(rng.uniform(0.07, 0.12)),
    )


@dataclass
class Begun:
    """An invocation as it was begun; ``open_s`` when its fingers were first told to open, monotonic time, NaN if never."""

    invocation: Invocation
    open_s: float = math.nan


class Demonstrator:
    """Wraps the analytic policy. Implements the Policy port.

    Attributes:
        begun: all invocations so far.
    """

    def __init__(self, policy: Policy, rng: np.random.Generator) -> None:
        self._policy = policy
        self._rng = rng
        self._opening: CommandedOpening | None = None
        self.begun: list[Begun] = []

    @property
    def manifest(self) -> Manifest:
        """The analytic policy's."""
        return self._policy.manifest

    def begin(self, invocation: Invocation, observation: Observation) -> PolicySession:
        """See Policy."""
        inner = self._policy.begin(invocation, observation)
        if self._opening is None:
            self._opening = CommandedOpening(observation.arm)
        self.begun.append(Begun(invocation))
        return _Session(inner, self._opening, self.begun[-1], observation.stamp_s, self.manifest.dt, self._rng)

    def opening(self, time_s: float) -> float:
        """Commanded opening, m; the widest before the first invocation."""
        return 0.08 if self._opening is None else self._opening.at(time_s)


class _Session:
    def __init__(
        self, inner: PolicySession, opening: CommandedOpening, begun: Begun, start_s: float, dt: float, rng: np.random.Generator
    ) -> None:
        self._inner = inner
        self._opening = opening
        self._begun = begun
        self._dt = dt
        travels = begun.invocation.family in (Family.REACH, Family.MOVE)
        self._sway = rng.normal(0.0, _SWAY, 3) * (travels and rng.random() < 0.6)
        self._sway[2] = abs(self._sway[2])
        self._from_s = start_s + rng.uniform(0.1, 0.7)
        self._lasts_s = rng.uniform(0.6, 1.3)
        self._pause_s = start_s + rng.uniform(0.2, 1.2) if travels and rng.random() < 0.12 else math.inf
        self._pause_end_s = self._pause_s + rng.uniform(0.4, 0.9)

    def needs_frame(self) -> bool:
        """See PolicySession."""
        return self._inner.needs_frame()

    def infer(self, observation: Observation) -> PolicyOutput:
        """The analytic chunk, with a detour or a pause."""
        output = self._inner.infer(observation)
        rows = output.actions.copy()
        now = observation.stamp_s
        if self._pause_s <= now < self._pause_end_s:
            rows[:, :7] = np.concatenate([observation.arm.ee.position, observation.arm.ee.quat_xyzw])
        else:
            times = now + self._dt * np.arange(1.0, len(rows) + 1)
            rows[:, :3] += self._detour(times, output, rows)
        self._opening.sent(now, self._dt, rows[:, 7])
        if output.phase == "open" and math.isnan(self._begun.open_s):
            self._begun.open_s = now
        return dataclasses.replace(output, actions=rows)

    def close(self) -> None:
        """See PolicySession."""
        self._inner.close()

    def _detour(self, times: NDArray[np.float64], output: PolicyOutput, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        goal = np.array([(output.measurements or {}).get(f"goal_{axis}", math.nan) for axis in "xyz"])
        if not np.all(np.isfinite(goal)):
            return np.zeros((len(rows), 3))
        far = np.linalg.norm(rows[:, :3] - goal, axis=1)
        share = np.clip((far - _SWAY_FROM) / (_SWAY_TO - _SWAY_FROM), 0.0, 1.0)
        phase = np.clip((times - self._from_s) / self._lasts_s, 0.0, 1.0)
        return (share * np.sin(math.pi * phase) ** 2)[:, None] * self._sway
