"""Scripted framesets: what a camera's faults look like from the capture loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyrealsense2 as rs

from vlatools.camera.ports import Intrinsics
from vlatools.camera.realsense import RealSenseCamera
from vlatools.camera.source import CameraLost

INTRINSICS = Intrinsics(8, 6, 10.0, 10.0, 3.5, 2.5)


class FakeProfile:
    def __init__(self, layout: Any) -> None:
        self._layout = layout

    def format(self) -> Any:
        return self._layout


class FakeFrame:
    def __init__(self, data: Any, number: int, stamp_s: float, layout: Any = None, domain: Any = None) -> None:
        self.profile = FakeProfile(layout)
        self._data, self._number, self._stamp_s = data, number, stamp_s
        self._domain = domain or rs.timestamp_domain.system_time

    def __bool__(self) -> bool:
        return True

    def get_frame_number(self) -> int:
        return self._number

    def get_timestamp(self) -> float:
        return self._stamp_s * 1000.0

    def get_frame_timestamp_domain(self) -> Any:
        return self._domain

    def get_data(self) -> Any:
        return self._data


class FakeFrames:
    """A frameset; ``wall_s`` is the stamp on the host's wall clock."""

    def __init__(
        self,
        number: int,
        wall_s: float,
        skew_s: float = 0.0,
        layout: Any = rs.format.rgb8,
        counts: int = 900,
        domain: Any = None,
        depth: bool = True,
    ) -> None:
        color = np.zeros((6, 8, 3), np.uint8)
        color[..., 0] = 200
        self._color = FakeFrame(color, number, wall_s, layout, domain)
        raw = np.full((6, 8), counts, np.uint16)
        raw[0, 0] = 0
        self._depth = FakeFrame(raw, number, wall_s + skew_s, rs.format.z16, domain) if depth else None

    def get_color_frame(self) -> Any:
        return self._color

    def get_depth_frame(self) -> Any:
        return self._depth


class ScriptedSource:
    """Gives framesets, or raises exceptions, from a script; then times out."""

    serial = "123456789012"
    intrinsics = INTRINSICS

    def __init__(self, script: list[Any], scale: float = 0.001, on_wait: Callable[[], None] = lambda: None) -> None:
        self.script = list(script)
        self.depth_scale = scale
        self.on_wait = on_wait
        self.starts = self.stops = self.resets = 0
        self.fail_starts = 0

    def start(self) -> None:
        self.starts += 1
        if self.fail_starts > 0:
            self.fail_starts -= 1
            raise CameraLost("no device connected")

    def wait(self, timeout_s: float) -> Any:
        self.on_wait()
        if not self.script:
            raise CameraLost("Frame didn't arrive within 1000")
        item = self.script.pop(0)
        if isinstance(item, Exception):
            raise item
        return item

    def stop(self) -> None:
        self.stops += 1

    def close(self) -> None:
        self.stops += 1

    def reset(self) -> None:
        self.resets += 1


class AlignedCamera(RealSenseCamera):
    """The camera with depth that is aligned already: ``rs.align`` takes only the SDK's own framesets."""

    def _aligned_depth(self, frames: Any) -> Any:
        return frames.get_depth_frame()
