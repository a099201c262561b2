"""Time of the lock-step simulation: it passes only where somebody sleeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from vlatools.sim import mjcf
from vlatools.sim.world import World

_SENSE_TICKS = 5  # contacts are looked at this often


@dataclass
class _Job:
    period: int
    due: int
    work: Callable[[], None]


class SimClock:
    """Simulated monotonic time, in steps of 1 ms. ``sleep`` advances the world and runs what is registered at its time."""

    def __init__(self, world: World, sense: Callable[[int], None]) -> None:
        self._world = world
        self._sense = sense
        self._jobs: list[_Job] = []
        self._inside = False

    def now(self) -> float:
        """Simulated seconds; starts at 0 and never goes back."""
        return self._world.ticks * mjcf.TIMESTEP

    def every(self, period_s: float, work: Callable[[], None]) -> Callable[[], None]:
        """Call ``work`` every ``period_s`` from one period from now on; call what is returned to end that.

        At equal times jobs run in the order in which they were registered.
        """
        period = round(period_s / mjcf.TIMESTEP)
        if period < 1:
            raise ValueError(f"a period of {period_s} s is shorter than the simulation's step of {mjcf.TIMESTEP} s")
        job = _Job(period, self._world.ticks + period, work)
        self._jobs.append(job)

        def end() -> None:
            if job in self._jobs:
                self._jobs.remove(job)

        return end

    def at(self, after_s: float, work: Callable[[], None]) -> None:
        """Call ``work`` once, ``after_s`` from now."""

        def once() -> None:
            end()
            work()

        end = self.every(max(after_s, mjcf.TIMESTEP), once)

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass; rounded up to whole milliseconds.

        Raises:
            RuntimeError: called from a registered job: nothing else could run meanwhile, so a job must never wait.
        """
        ticks = math.ceil(seconds / mjcf.TIMESTEP - 1e-6)
        if ticks <= 0:
            return
        if self._inside:
            raise RuntimeError("sleep inside a periodic job: a job must return, not wait")
        end = self._world.ticks + ticks
        while self._world.ticks < end:
            stop = min([end, self._world.ticks + _SENSE_TICKS, *(job.due for job in self._jobs)])
            step = stop - self._world.ticks
            self._world.advance(step)
            self._sense(step)
            self._run_due()

    def _run_due(self) -> None:
        self._inside = True
        try:
            for job in [job for job in self._jobs if job.due <= self._world.ticks]:
                job.due += job.period
                job.work()
        finally:
            self._inside = False
