"""From a camera's time stamps to the monotonic time of the exposure."""

from __future__ import annotations

from collections.abc import Callable

from vlatools.core import Clock

_PLAUSIBLE_AGE_S = (-0.05, 1.0)
_WALL_JUMP_S = 0.05


class StampConverter:
    """Converts device stamps in seconds to the monotonic clock.

    Stamps of the host's wall clock (``system_time``, ``global_time``) are converted by the present difference of the two
    clocks. Others (the camera's own clock, recordings) are anchored by the quickest frame so far: their stamps are late by
    that frame's transport time, which is the same for all.
    """

    def __init__(self, clock: Clock, wall: Callable[[], float]) -> None:
        self._clock = clock
        self._wall = wall
        self._difference = 0.0
        self._anchor: float | None = None
        self._by_wall: bool | None = None

    def restart(self) -> None:
        """The stream began anew: forget what was learned."""
        self._anchor, self._by_wall = None, None

    def convert(self, device_s: float, wall_domain: bool) -> float:
        """Monotonic seconds of a stamp that arrives now; call it once for every frame, in order.

        Args:
            device_s: the frame's stamp, seconds on the device's clock.
            wall_domain: whether the device says that it is the host's wall clock.
        """
        now = self._clock.now()
        difference = self._wall() - now
        if self._by_wall and abs(difference - self._difference) > _WALL_JUMP_S:
            # The wall clock was set: decide anew, so that a frame is neither old nor from the future by that jump.
            self.restart()
        self._difference = difference
        if self._by_wall is None:
            low, high = _PLAUSIBLE_AGE_S
            self._by_wall = wall_domain and low <= self._wall() - device_s <= high
        if self._by_wall:
            return min(now, device_s - difference)
        anchor = now - device_s
        self._anchor = anchor if self._anchor is None else min(self._anchor, anchor)
        return device_s + self._anchor
