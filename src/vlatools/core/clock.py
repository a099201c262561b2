"""Time is injected: real nodes use the monotonic clock, tests a manual one, the lock-step simulation its own."""

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock in seconds. ``sleep`` is the only way to wait in code below ``nodes/``.

    In the lock-step simulation ``sleep`` advances the physics, so every wait loop there is also what moves the world.
    """

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds`` (0 or more)."""
        ...


class MonotonicClock:
    """The host's monotonic clock (CLOCK_MONOTONIC, the same for all processes of one host)."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""
        time.sleep(max(0.0, seconds))


class ManualClock:
    """A clock for tests: time moves only by ``sleep`` and ``advance``."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)

    def now(self) -> float:
        """Current manual time."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance by ``seconds`` at once."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move time forward by ``seconds`` >= 0."""
        if seconds < 0:
            raise ValueError(f"cannot advance by {seconds} s: a monotonic clock never goes back")
        self._now += seconds
