"""The progress monitor (paper, section 4.1.2 and appendix A): completed, go on, or stagnating.

All windows are in seconds on the caller's clock, never in samples, so that a policy's rate does not change a verdict.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from vlatools.core.errors import ConfigError
from vlatools.core.invocation import MonitorOverrides


class Verdict(str, Enum):
    """What the monitor says after a sample."""

    CONTINUE = "continue"
    ADVANCE = "advance"
    REPLAN = "replan"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class MonitorConfig:
    """Thresholds of the monitor.

    Attributes:
        completion_threshold: tau; smoothed progress at or above it counts as complete.
        completion_hold_s: seconds that it must stay there.
        smoothing_s: width of the smoothing window; the smoothed value is the median of the samples in it.
        stall_window_s: look-back window for the gain.
        stall_gain: least gain of smoothed progress over the window; less is stagnation.
        grace_s: seconds from the start in which stagnation is not judged.
        horizon_s: longest execution.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    completion_threshold: float = 0.90
    completion_hold_s: float = 0.2
    smoothing_s: float = 0.3
    stall_window_s: float = 3.0
    stall_gain: float = 0.02
    grace_s: float = 1.0
    horizon_s: float = 15.0

    def __post_init__(self) -> None:
        limits = {
            "completion_threshold": (0.0, 1.0, False),
            "completion_hold_s": (0.0, 60.0, True),
            "smoothing_s": (0.0, 10.0, True),
            "stall_window_s": (0.0, 300.0, False),
            "stall_gain": (0.0, 1.0, True),
            "grace_s": (0.0, 300.0, True),
            "horizon_s": (0.0, 600.0, False),
        }
        for key, (low, high, low_allowed) in limits.items():
            value = getattr(self, key)
            if not math.isfinite(value) or value > high or value < low or (value == low and not low_allowed):
                above = "at least" if low_allowed else "above"
                raise ConfigError(f"{key} is {value}, it must be {above} {low:g} and at most {high:g}: change it")

    def with_overrides(self, overrides: MonitorOverrides, horizon_s: float | None) -> MonitorConfig:
        """This configuration with an invocation's own thresholds."""
        given = {
            key: value
            for key, value in (
                ("completion_threshold", overrides.completion_threshold),
                ("completion_hold_s", overrides.completion_hold_s),
                ("stall_window_s", overrides.stall_window_s),
                ("stall_gain", overrides.stall_gain),
                ("horizon_s", horizon_s),
            )
            if value is not None
        }
        return replace(self, **given)


@dataclass(frozen=True)
class ProgressSample:
    """What the monitor made of one sample.

    Attributes:
        time_s: time of the sample on the caller's clock.
        elapsed_s: since the start of the invocation.
        progress: raw progress as given (NaN if it was dropped).
        smoothed: smoothed progress, 0 to 1.
        gain: gain of the smoothed progress over the look-back window; NaN before the window is full.
        verdict: the verdict.
    """

    time_s: float
    elapsed_s: float
    progress: float
    smoothed: float
    gain: float
    verdict: Verdict


class ProgressMonitor:
    """Judges one invocation. ``update`` with each new sample, ``tick`` when none came.

    Rules, in this order:

    * *advance* when smoothed progress has stayed at or above ``completion_threshold`` for ``completion_hold_s``;
    * *timeout* when the horizon is reached;
    * *replan* when, after ``grace_s``, the smoothed progress gained less than ``stall_gain`` over ``stall_window_s``
      (and is below the threshold);
    * *continue* otherwise.

    Samples that are not finite or do not advance in time are dropped and counted; values outside [0, 1] are clipped.
    A terminal verdict is latched.
    """

    def __init__(self, config: MonitorConfig, start_s: float) -> None:
        self.config = config
        self.start_s = start_s
        self.dropped = 0
        self._raw: deque[tuple[float, float]] = deque()
        self._smooth: deque[tuple[float, float]] = deque()
        self._above_since: float | None = None
        self._final: ProgressSample | None = None
        self._last_s = -math.inf
        self.smoothed = 0.0

    def update(self, time_s: float, progress: float) -> ProgressSample:
        """Judge a new sample taken at ``time_s``."""
        if self._final is not None:
            return self._final
        if not math.isfinite(progress) or not math.isfinite(time_s) or time_s <= self._last_s:
            self.dropped += 1
            return self.tick(time_s if math.isfinite(time_s) else max(self._last_s, self.start_s))
        self._last_s = time_s
        value = min(1.0, max(0.0, progress))
        self._raw.append((time_s, value))
        while self._raw[0][0] < time_s - self.config.smoothing_s:
            self._raw.popleft()
        ordered = sorted(v for _, v in self._raw)
        middle = len(ordered) // 2
        self.smoothed = ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])
        self._smooth.append((time_s, self.smoothed))
        if self.smoothed >= self.config.completion_threshold:
            if self._above_since is None:
                self._above_since = time_s
        else:
            self._above_since = None
        return self._judge(time_s, progress)

    def tick(self, time_s: float) -> ProgressSample:
        """Judge the passing of time without a new sample."""
        if self._final is not None:
            return self._final
        return self._judge(max(time_s, self._last_s, self.start_s), math.nan)

    def _judge(self, time_s: float, progress: float) -> ProgressSample:
        elapsed = time_s - self.start_s
        gain = self._gain(time_s)
        verdict = Verdict.CONTINUE
        held = self._above_since is not None and self._last_s - self._above_since >= self.config.completion_hold_s
        if held:
            verdict = Verdict.ADVANCE
        elif elapsed >= self.config.horizon_s:
            verdict = Verdict.TIMEOUT
        elif self._above_since is None and elapsed >= self.config.grace_s + self.config.stall_window_s and gain < self.config.stall_gain:
            verdict = Verdict.REPLAN
        sample = ProgressSample(time_s, elapsed, progress, self.smoothed, gain, verdict)
        if verdict is not Verdict.CONTINUE:
            self._final = sample
        return sample

    def _gain(self, time_s: float) -> float:
        """Smoothed progress now less what it was at the window's begin; NaN before the window is full."""
        begin = time_s - self.config.stall_window_s
        if begin < self.start_s:
            return math.nan
        while len(self._smooth) > 1 and self._smooth[1][0] <= begin:
            self._smooth.popleft()
        if not self._smooth:
            return 0.0
        return self.smoothed - self._smooth[0][1] if self._smooth[0][0] <= begin else self.smoothed
