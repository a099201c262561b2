"""Where framesets come from: a connected device or a recorded file. The simulated camera is a third, in ``sim/d435.py``.

Everything after the frameset is one code path, see :mod:`vlatools.camera.realsense`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyrealsense2 as rs

from vlatools.camera.ports import Intrinsics
from vlatools.core import ConfigError, VlatoolsError


class CameraLost(VlatoolsError):
    """The source gave no frameset in time, or is gone."""


class NoFrame(CameraLost):
    """The source lives, but gave no frameset in the time it was given."""


@dataclass(frozen=True)
class StreamProfile:
    """Streams that are asked of a device; the depth size is that in which the D435 measures best."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    color_width: int = 640
    color_height: int = 480
    depth_width: int = 848
    depth_height: int = 480
    fps: int = 15

    def __post_init__(self) -> None:
        for key in ("color_width", "color_height", "depth_width", "depth_height"):
            if not 100 <= getattr(self, key) <= 1920:
                raise ConfigError(f"{key} is {getattr(self, key)} pixels, the limits are 100 and 1920")
        if self.fps not in (6, 15, 30, 60):
            raise ConfigError(f"fps is {self.fps}, a D435 gives 6, 15, 30 or 60")


class FrameSource(Protocol):
    """A source of framesets that hold one colour and one depth frame."""

    @property
    def serial(self) -> str:
        """Serial number of the camera. Valid after ``start``."""
        ...

    @property
    def intrinsics(self) -> Intrinsics:
        """Of the colour stream, from the device. Valid after ``start``."""
        ...

    @property
    def depth_scale(self) -> float:
        """Metres per count of the depth frames, from the device. Valid after ``start``."""
        ...

    def start(self) -> None:
        """Open and stream. Raises CameraLost when there is no such camera or it does not open."""
        ...

    def wait(self, timeout_s: float) -> Any:
        """The newest frameset (``rs.composite_frame``); what queued up before it is dropped. Raises NoFrame, CameraLost."""
        ...

    def stop(self) -> None:
        """Stop streaming; safe in any state; ``start`` may follow."""
        ...

    def close(self) -> None:
        """Release everything, for good."""
        ...

    def reset(self) -> None:
        """Power-cycle the device, where there is one; it needs some seconds to come back. Raises CameraLost."""
        ...


def to_intrinsics(raw: Any) -> Intrinsics:
    """Intrinsics of an ``rs.intrinsics``."""
    return Intrinsics(raw.width, raw.height, raw.fx, raw.fy, raw.ppx, raw.ppy, tuple(float(c) for c in raw.coeffs))


class _PipelineSource:
    """What device and file have in common: an ``rs.pipeline``."""

    def __init__(self) -> None:
        self._pipeline: Any = None
        self._device: Any = None
        self._serial = ""
        self._intrinsics: Intrinsics | None = None
        self._scale = 0.0

    def _configure(self, config: Any) -> None:
        raise NotImplementedError

    @property
    def serial(self) -> str:
        """See FrameSource."""
        return self._serial

    @property
    def intrinsics(self) -> Intrinsics:
        """See FrameSource."""
        if self._intrinsics is None:
            raise CameraLost("the camera has not been started: no intrinsics yet")
        return self._intrinsics

    @property
    def depth_scale(self) -> float:
        """See FrameSource."""
        return self._scale

    def start(self) -> None:
        """See FrameSource."""
        self.stop()
        pipeline, config = rs.pipeline(), rs.config()
        try:
            self._configure(config)
            profile = pipeline.start(config)
            self._device = profile.get_device()
            color = profile.get_stream(rs.stream.color).as_video_stream_profile()
            self._intrinsics = to_intrinsics(color.get_intrinsics())
            self._scale = float(self._device.first_depth_sensor().get_depth_scale())
            self._serial = str(self._device.get_info(rs.camera_info.serial_number))
        except RuntimeError as error:
            raise CameraLost(f"{self._name()} did not start: {error}. {self._advice()}") from error
        self._pipeline = pipeline

    def wait(self, timeout_s: float) -> Any:
        """See FrameSource."""
        if self._pipeline is None:
            raise CameraLost("the camera has not been started")
        try:
            frames = self._pipeline.wait_for_frames(int(timeout_s * 1000))
            newer = self._pipeline.poll_for_frames()
            while newer:
                frames, newer = newer, self._pipeline.poll_for_frames()
        except RuntimeError as error:
            kind = NoFrame if "didn't arrive" in str(error) else CameraLost
            raise kind(f"{self._name()} gave no frame: {error}. {self._advice()}") from error
        return frames

    def stop(self) -> None:
        """See FrameSource."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            try:
                pipeline.stop()
            except RuntimeError:
                # An unplugged camera cannot be stopped, and need not be.
                return

    def close(self) -> None:
        """See FrameSource."""
        self.stop()
        self._device = None

    def _name(self) -> str:
        raise NotImplementedError

    def _advice(self) -> str:
        raise NotImplementedError


def _serials() -> list[str]:
    return [str(device.get_info(rs.camera_info.serial_number)) for device in rs.context().query_devices()]


class DeviceSource(_PipelineSource):
    """A connected RealSense camera; ``serial`` "" takes the only one."""

    def __init__(self, serial: str, profile: StreamProfile) -> None:
        super().__init__()
        self._wanted = serial
        self._profile = profile

    def _configure(self, config: Any) -> None:
        present = _serials()
        if not present or (self._wanted and self._wanted not in present):
            # The SDK would wait for 15 s before it says so.
            raise CameraLost(f"{self._name()} is not connected. {self._advice()}")
        if self._wanted:
            config.enable_device(self._wanted)
        wanted = self._profile
        config.enable_stream(rs.stream.color, wanted.color_width, wanted.color_height, rs.format.rgb8, wanted.fps)
        config.enable_stream(rs.stream.depth, wanted.depth_width, wanted.depth_height, rs.format.z16, wanted.fps)

    def reset(self) -> None:
        """See FrameSource."""
        for device in rs.context().query_devices():
            serial = str(device.get_info(rs.camera_info.serial_number))
            if self._wanted in ("", serial):
                try:
                    device.hardware_reset()
                except RuntimeError as error:
                    raise CameraLost(f"camera {serial} refused to reset: {error}. Replug it") from error
                return
        raise CameraLost(f"{self._name()} is not on the bus, it cannot be reset. {self._advice()}")

    def _name(self) -> str:
        return f"camera {self._wanted!r}" if self._wanted else "the camera"

    def _advice(self) -> str:
        return f"Cameras on the bus: {', '.join(_serials()) or 'none'}. Check the USB 3 cable and the serial number"


class FileSource(_PipelineSource):
    """A recording made by the RealSense SDK (.db3, .bag). At its end it starts again when ``repeat``, else it is lost."""

    def __init__(self, path: str | Path, repeat: bool = True) -> None:
        super().__init__()
        self._path = Path(path)
        self._repeat = repeat

    def _configure(self, config: Any) -> None:
        if not self._path.is_file():
            raise CameraLost(f"recording {self._path} does not exist: give the path of a RealSense recording")
        config.enable_device_from_file(str(self._path), repeat_playback=self._repeat)

    def reset(self) -> None:
        """Nothing to power-cycle; ``start`` opens the file anew."""

    def _name(self) -> str:
        return f"recording {self._path}"

    def _advice(self) -> str:
        return "It has ended or is damaged" if not self._repeat else "It may be damaged: open it in realsense-viewer"
