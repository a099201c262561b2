"""The simulated D435: a pyrealsense2 ``software_device``, so that everything after the frameset is the lab's own code.

Intrinsics, units, stamps, noise and holes are those of a D435 at 640x480; depth is given in the colour camera's view.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyrealsense2 as rs
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics
from vlatools.camera.source import CameraLost, NoFrame
from vlatools.core import Clock
from vlatools.sim import depth_noise
from vlatools.sim.depth_noise import DepthNoise

SERIAL = "SIM-D435-0001"
FOVY_DEG = 42.5
DEPTH_UNIT_M = 0.001


def d435_intrinsics(width: int = 640, height: int = 480) -> Intrinsics:
    """Pinhole of a renderer with the D435's vertical field of view: square pixels, the axis through the image's middle."""
    focal = height / 2 / math.tan(math.radians(FOVY_DEG) / 2)
    return Intrinsics(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)


@dataclass(frozen=True)
class Picture:
    """What a renderer gives: a perfect picture of one instant.

    Attributes:
        stamp_s: time of the state that was drawn, on the clock of the source.
        color: uint8 (H, W, 3) RGB.
        depth: float32 (H, W) metres along the optical axis; infinite, NaN or beyond 3 m where nothing is.
    """

    stamp_s: float
    color: NDArray[np.uint8]
    depth: NDArray[np.float32]


class Renderer(Protocol):
    """Draws the simulated lab; made, used and closed in one thread, because a GL context belongs to its thread."""

    def render(self) -> Picture | None:
        """The present picture; None while the simulation gives none."""
        ...

    def close(self) -> None:
        """Free the GL context."""
        ...


class SoftwareCamera:
    """One opening of a software device. A closed one pairs no frames when opened again, so each opening makes a new one.

    Args:
        intrinsics: of both streams.
        fps: pictures per second.
        record_to: file of a RealSense recording (.db3) to write, or None.
    """

    def __init__(self, intrinsics: Intrinsics, fps: int, record_to: str | None = None) -> None:
        raw = rs.intrinsics()
        raw.width, raw.height = intrinsics.width, intrinsics.height
        raw.fx, raw.fy, raw.ppx, raw.ppy = intrinsics.fx, intrinsics.fy, intrinsics.cx, intrinsics.cy
        raw.model, raw.coeffs = rs.distortion.brown_conrady, [0.0] * 5
        self.device = rs.software_device()
        self.device.register_info(rs.camera_info.name, "Simulated Intel RealSense D435")
        self.device.register_info(rs.camera_info.serial_number, SERIAL)
        self._depth_sensor = self.device.add_sensor("Stereo Module")
        self._color_sensor = self.device.add_sensor("RGB Camera")
        self._depth_sensor.add_read_only_option(rs.option.depth_units, DEPTH_UNIT_M)
        self._depth = self._depth_sensor.add_video_stream(_stream(rs.stream.depth, 0, 2, rs.format.z16, raw, fps))
        self._color = self._color_sensor.add_video_stream(_stream(rs.stream.color, 1, 3, rs.format.rgb8, raw, fps))
        still = rs.extrinsics()
        still.rotation, still.translation = [1.0, 0, 0, 0, 1.0, 0, 0, 0, 1.0], [0.0, 0.0, 0.0]
        self._depth.register_extrinsics_to(self._color, still)
        self.device.create_matcher(rs.matchers.default)
        self._recorder = None if record_to is None else rs.recorder(record_to, self.device)
        self.frames = rs.syncer(1)
        for sensor, profile in ((self._depth_sensor, self._depth), (self._color_sensor, self._color)):
            sensor.open(profile)
            sensor.start(self.frames)

    @property
    def depth_scale(self) -> float:
        """Metres per count, as the device says."""
        return float(self.device.first_depth_sensor().get_depth_scale())

    def push(self, color: NDArray[np.uint8], counts: NDArray[np.uint16], number: int, stamp_ms: float) -> None:
        """Give one pair of images, stamped with the host's wall clock in milliseconds."""
        for sensor, profile, pixels, bpp in (
            (self._depth_sensor, self._depth, counts, 2),
            (self._color_sensor, self._color, color, 3),
        ):
            frame = rs.software_video_frame()
            frame.pixels = np.ascontiguousarray(pixels)
            frame.bpp, frame.stride = bpp, pixels.shape[1] * bpp
            frame.timestamp, frame.domain = stamp_ms, rs.timestamp_domain.system_time
            frame.frame_number, frame.profile = number, profile.as_video_stream_profile()
            if bpp == 2:
                frame.depth_units = DEPTH_UNIT_M
            sensor.on_video_frame(frame)

    def close(self) -> None:
        """Stop both sensors, and end the recording."""
        self._recorder = None
        for sensor in (self._depth_sensor, self._color_sensor):
            with contextlib.suppress(RuntimeError):
                sensor.stop()
                sensor.close()


def _stream(kind: Any, index: int, uid: int, layout: Any, raw: Any, fps: int) -> Any:
    stream = rs.video_stream()
    stream.type, stream.index, stream.uid, stream.fmt = kind, 0, uid + index, layout
    stream.width, stream.height, stream.fps = raw.width, raw.height, fps
    stream.bpp, stream.intrinsics = (2 if layout == rs.format.z16 else 3), raw
    return stream


class SimSource:
    """Implements :class:`~vlatools.camera.source.FrameSource` over the simulation.

    Args:
        make_renderer: makes the renderer, called in the render thread.
        clock: paces the render thread.
        fps: pictures per second.
        noise: the depth camera's faults.
        seed: of the noise.
        intrinsics: of the renderer.
    """

    def __init__(
        self,
        make_renderer: Callable[[], Renderer],
        clock: Clock,
        fps: int = 15,
        noise: DepthNoise = depth_noise.D435,
        seed: int = 0,
        intrinsics: Intrinsics | None = None,
    ) -> None:
        self._make_renderer = make_renderer
        self._clock = clock
        self._fps = fps
        self._noise = noise
        self._rng = np.random.default_rng(seed)
        self._intrinsics = intrinsics or d435_intrinsics()
        self._camera: SoftwareCamera | None = None
        self._feeding = threading.Lock()  # nothing is pushed into a camera that is being closed
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._error = ""
        self._number = 0

    @property
    def serial(self) -> str:
        """See FrameSource."""
        return SERIAL

    @property
    def intrinsics(self) -> Intrinsics:
        """See FrameSource."""
        return self._intrinsics

    @property
    def depth_scale(self) -> float:
        """See FrameSource."""
        return DEPTH_UNIT_M if self._camera is None else self._camera.depth_scale

    def start(self) -> None:
        """See FrameSource."""
        self.stop()
        self._error = ""
        with self._feeding:
            self._camera = SoftwareCamera(self._intrinsics, self._fps)
        if self._thread is None or not self._thread.is_alive():
            # It outlives a restart of the camera: making a renderer takes long on a busy machine.
            self._ending = threading.Event()
            self._thread = threading.Thread(target=self._render, args=(self._ending,), name="sim-camera-render", daemon=True)
            self._thread.start()

    def wait(self, timeout_s: float) -> Any:
        """See FrameSource."""
        camera = self._camera
        if camera is None:
            raise CameraLost("the simulated camera has not been started")
        end = self._clock.now() + timeout_s
        while self._clock.now() < end:
            arrived, frames = camera.frames.try_wait_for_frames(max(1, int((end - self._clock.now()) * 1000)))
            # The first framesets of a software device hold colour only.
            if arrived and frames.get_depth_frame() and frames.get_color_frame():
                newer = camera.frames.poll_for_frames()
                while newer and newer.size() == 2:
                    frames, newer = newer, camera.frames.poll_for_frames()
                return frames
        if self._error:
            raise CameraLost(f"the simulated camera gave no frame: {self._error}")
        raise NoFrame("the simulated camera gave no frame: is the simulation running? Start it with `vlatools sim`")

    def stop(self) -> None:
        """See FrameSource."""
        with self._feeding:
            camera, self._camera = self._camera, None
            if camera is not None:
                camera.close()

    def close(self) -> None:
        """See FrameSource."""
        self.stop()
        self._ending.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout=10.0)

    def reset(self) -> None:
        """Nothing to power-cycle; ``start`` makes a new device."""

    def _render(self, ending: threading.Event) -> None:
        try:
            renderer = self._make_renderer()
        except Exception as error:  # any GL fault must end as a camera fault with its reason
            self._error = f"the renderer did not start: {error}"
            return
        try:
            self._loop(renderer, ending)
        except Exception as error:  # as above
            self._error = f"the renderer failed: {error}"
        finally:
            renderer.close()

    def _loop(self, renderer: Renderer, ending: threading.Event) -> None:
        period = 1.0 / self._fps
        due = self._clock.now()
        while not ending.is_set():
            picture = renderer.render()
            if picture is not None:
                self._number += 1
                counts = self._to_counts(picture.depth)
                # The device stamps with the host's wall clock, as a D435 with global time does.
                stamp_ms = (picture.stamp_s + (time.time() - self._clock.now())) * 1000.0
                with self._feeding:
                    if self._camera is not None:
                        self._camera.push(picture.color, counts, self._number, stamp_ms)
            due = max(due + period, self._clock.now() - period)
            self._clock.sleep(max(0.0, due - self._clock.now()))

    def _to_counts(self, depth: NDArray[np.float32]) -> NDArray[np.uint16]:
        """Raw depth counts, uint16 (H, W), 0 where there is none, of a perfect depth image."""
        noisy = depth_noise.apply(depth, self._rng, self._noise)
        return np.asarray(np.rint(np.nan_to_num(noisy) / DEPTH_UNIT_M), dtype=np.uint16)
