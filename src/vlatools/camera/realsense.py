"""The RGB-D camera: from framesets of any source to fresh, aligned frames in metres, whatever the camera does.

A capture thread keeps only the newest frame. A frame whose number or stamp does not advance is dropped, and a camera that gives
nothing new is restarted with growing pauses; readers see its age and the reason, never an old frame as if it were new.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyrealsense2 as rs
from numpy.typing import NDArray

from vlatools.camera.ports import RgbdFrame
from vlatools.camera.source import CameraLost, FrameSource, NoFrame, StreamProfile
from vlatools.camera.stamps import StampConverter
from vlatools.core import Clock, ConfigError, StaleData

_WALL_DOMAINS = (rs.timestamp_domain.system_time, rs.timestamp_domain.global_time)
_REWIND_FRAMES = 30
_CLOCK_SET_S = 0.5
_SLICE_S = 0.3


@dataclass(frozen=True)
class CameraConfig:
    """Limits of the capture loop.

    Attributes:
        streams: what a device is asked for; the simulated camera takes its rate.
        first_frame_timeout_s: longest wait for the first frameset after opening; a camera needs a while to start.
        frame_timeout_s: longest wait for each one after it.
        frozen_after_s: a camera that repeats itself for so long is restarted.
        backoff_s, backoff_max_s: first and longest pause before a restart; it doubles.
        reset_after: restarts without a frame before the device is power-cycled.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    streams: StreamProfile = field(default_factory=StreamProfile)
    first_frame_timeout_s: float = 6.0
    frame_timeout_s: float = 1.0
    frozen_after_s: float = 2.0
    backoff_s: float = 0.5
    backoff_max_s: float = 8.0
    reset_after: int = 2

    def __post_init__(self) -> None:
        for key, low, high in (
            ("first_frame_timeout_s", 0.5, 60.0),
            ("frame_timeout_s", 0.1, 10.0),
            ("frozen_after_s", 0.2, 30.0),
            ("backoff_s", 0.0, 10.0),
            ("backoff_max_s", self.backoff_s, 60.0),
            ("reset_after", 1, 100),
        ):
            value = getattr(self, key)
            if not low <= value <= high:
                raise ConfigError(f"{key} is {value}, the limits are {low} and {high}")

    @property
    def max_skew_s(self) -> float:
        """Colour and depth further apart are of different instants: half a period."""
        return 0.5 / self.streams.fps


@dataclass(frozen=True)
class CameraStatus:
    """State of the camera for diagnostics.

    Attributes:
        streaming: a new frame came within the frame time-out.
        reason: why it does not stream, and what to do; "" if it does.
        rate_hz: new frames per second over the last two seconds.
        age_s: age of the newest frame, inf before the first.
        latency_s: arrival minus exposure of the newest frame.
        skew_s: between colour and depth of the newest frame.
        counters: frames, dropped, repeated, skewed, incomplete, timeouts, restarts, resets.
    """

    streaming: bool
    reason: str
    rate_hz: float
    age_s: float
    latency_s: float
    skew_s: float
    counters: dict[str, int] = field(default_factory=dict)


class RealSenseCamera:
    """Implements :class:`~vlatools.camera.ports.RgbdCamera` over a frame source.

    ``start`` begins the capture thread; ``step`` is one round of it, for tests and for callers with a thread of their own.
    """

    def __init__(
        self,
        source: FrameSource,
        clock: Clock,
        config: CameraConfig | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.config = config or CameraConfig()
        self._source = source
        self._clock = clock
        self._stamps = StampConverter(clock, wall)
        self._align = rs.align(rs.stream.color)
        self._fresh = threading.Condition()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._counters: Counter[str] = Counter()
        self._arrivals: deque[float] = deque(maxlen=200)
        self._frame: RgbdFrame | None = None
        self._latency_s = 0.0
        self._open = False
        self._failures = 0
        self._reason = ""
        self._last_number = -1
        self._last_device_s = -1.0
        self._last_new_s = clock.now()

    # -- the port ---------------------------------------------------------------------------------------------------

    def latest(self, max_age_s: float) -> RgbdFrame:
        """See RgbdCamera."""
        with self._fresh:
            frame = self._frame
        age = float("inf") if frame is None else self._clock.now() - frame.stamp_s
        if frame is None or age > max_age_s:
            raise StaleData("camera", age, max_age_s, self._why(frame))
        return frame

    def wait_after(self, stamp_s: float, timeout_s: float) -> RgbdFrame:
        """See RgbdCamera."""
        deadline = self._clock.now() + timeout_s
        with self._fresh:
            while True:
                frame = self._frame
                if frame is not None and frame.stamp_s > stamp_s:
                    return frame
                remaining = deadline - self._clock.now()
                if remaining <= 0 or self._ending.is_set():
                    age = float("inf") if frame is None else self._clock.now() - frame.stamp_s
                    raise StaleData("camera", age, timeout_s, self._why(frame))
                self._fresh.wait(remaining)

    def _why(self, frame: RgbdFrame | None) -> str:
        return self._reason or ("no frame has come yet" if frame is None else "no newer frame came in time")

    # -- life ---------------------------------------------------------------------------------------------------------

    @property
    def serial(self) -> str:
        """Serial number of the camera; "" before it first opened."""
        return self._source.serial

    def start(self) -> None:
        """Begin capturing in a thread. Never raises for a missing camera: that is a state, and it is retried."""
        if self._thread is None:
            self._ending.clear()
            self._thread = threading.Thread(target=self._run, name="camera-capture", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the capture thread and close the source. Idempotent."""
        self._ending.set()
        with self._fresh:
            self._fresh.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=self.config.first_frame_timeout_s + 1.0)
            self._thread = None
        self._close()
        self._source.close()

    def status(self) -> CameraStatus:
        """Present state, for diagnostics."""
        now = self._clock.now()
        with self._fresh:
            frame = self._frame
            recent = sum(1 for t in self._arrivals if now - t <= 2.0)
        age = float("inf") if frame is None else now - frame.stamp_s
        return CameraStatus(
            streaming=self._reason == "" and age <= self.config.frame_timeout_s + self._latency_s,
            reason=self._reason,
            rate_hz=recent / 2.0,
            age_s=age,
            latency_s=self._latency_s,
            skew_s=0.0 if frame is None else frame.skew_s,
            counters=dict(self._counters),
        )

    # -- capture --------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            self.step()

    def step(self) -> None:
        """One round: open if need be, wait for one frameset, take it or count why not. Never raises for the camera's faults."""
        try:
            if not self._open:
                self._source.start()
                self._open = True
                self._forget()
            self._take(self._wait())
            if self._clock.now() - self._last_new_s > self.config.frozen_after_s:
                raise CameraLost(f"the camera has repeated the same frame for more than {self.config.frozen_after_s:.1f} s: restarting it")
        except (CameraLost, RuntimeError) as error:
            # librealsense raises RuntimeError from any call on a device that is gone.
            self._counters["timeouts"] += 1
            self._recover(str(error))

    def _wait(self) -> Any:
        """A frameset, waited for in slices, so that ``stop`` is not held up. Raises CameraLost."""
        started = self._last_number >= 0
        end = self._clock.now() + (self.config.frame_timeout_s if started else self.config.first_frame_timeout_s)
        while True:
            try:
                return self._source.wait(max(0.01, min(_SLICE_S, end - self._clock.now())))
            except NoFrame:
                if self._ending.is_set() or self._clock.now() >= end:
                    raise

    def _recover(self, reason: str) -> None:
        self._reason = reason
        self._close()
        pause = min(self.config.backoff_max_s, self.config.backoff_s * 2**self._failures)
        self._failures = min(self._failures + 1, 30)
        self._counters["restarts"] += 1
        if self._failures > self.config.reset_after and (self._failures - 1) % self.config.reset_after == 0:
            self._counters["resets"] += 1
            try:
                self._source.reset()
            except CameraLost as error:
                self._reason = str(error)
        end = self._clock.now() + pause
        while not self._ending.is_set() and self._clock.now() < end:
            self._clock.sleep(min(0.1, pause))

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._source.stop()

    def _forget(self) -> None:
        """A stream began: its numbers and stamps start anew."""
        self._last_number, self._last_device_s = -1, -1.0
        self._last_new_s = self._clock.now()
        self._stamps.restart()

    def _take(self, frames: Any) -> None:
        color, depth = frames.get_color_frame(), frames.get_depth_frame()
        if not color or not depth:
            self._counters["incomplete"] += 1
            return
        number, device_s = int(color.get_frame_number()), color.get_timestamp() / 1000.0
        if number < self._last_number - _REWIND_FRAMES:
            # A recording that starts again, or a device that was reset behind our back.
            self._forget()
        if number > self._last_number and device_s < self._last_device_s - _CLOCK_SET_S:
            # The clock that the device stamps with was set back; the numbers tell that the frame is new.
            self._last_device_s = -1.0
            self._stamps.restart()
        if number <= self._last_number or device_s <= self._last_device_s:
            self._counters["repeated"] += 1
            return
        if self._last_number >= 0:
            self._counters["dropped"] += number - self._last_number - 1
        stamp_s = self._stamps.convert(device_s, color.get_frame_timestamp_domain() in _WALL_DOMAINS)
        self._last_number, self._last_device_s, self._last_new_s = number, device_s, self._clock.now()
        skew_s = abs(color.get_timestamp() - depth.get_timestamp()) / 1000.0
        same_clock = color.get_frame_timestamp_domain() == depth.get_frame_timestamp_domain()
        if not same_clock or skew_s > self.config.max_skew_s:
            self._counters["skewed"] += 1
            self._reason = (
                f"colour and depth are {skew_s * 1000:.0f} ms apart, the limit is {self.config.max_skew_s * 1000:.0f} ms: "
                "lower the load or the frame rate"
            )
            return
        aligned = self._aligned_depth(frames)
        frame = RgbdFrame(
            stamp_s,
            number,
            to_rgb(color),
            to_metres(np.asanyarray(aligned.get_data()), self._source.depth_scale),
            self._source.intrinsics,
            skew_s,
        )
        self._publish(frame)

    def _aligned_depth(self, frames: Any) -> Any:
        return self._align.process(frames).get_depth_frame()

    def _publish(self, frame: RgbdFrame) -> None:
        now = self._clock.now()
        with self._fresh:
            self._frame = frame
            self._arrivals.append(now)
            self._latency_s = now - frame.stamp_s
            self._counters["frames"] += 1
            self._failures = 0
            self._reason = ""
            self._fresh.notify_all()


def to_rgb(frame: Any) -> NDArray[np.uint8]:
    """RGB copy, uint8 (H, W, 3), of a colour frame. Raises CameraLost for a format that is neither rgb8 nor bgr8."""
    kind = frame.profile.format()
    data = np.asanyarray(frame.get_data())
    if kind == rs.format.rgb8:
        return np.array(data, dtype=np.uint8)
    if kind == rs.format.bgr8:
        return np.ascontiguousarray(data[..., ::-1])
    raise CameraLost(f"the colour stream's format is {kind}, only rgb8 and bgr8 are known: configure the stream as rgb8")


def to_metres(counts: NDArray[np.uint16], scale: float) -> NDArray[np.float32]:
    """Depth in metres, float32, NaN where the camera gives 0, of raw counts and the device's metres per count."""
    depth = counts.astype(np.float32)
    depth *= np.float32(scale)
    depth[counts == 0] = np.nan
    return depth
