"""Node ``camera``: a D435, a recording or the simulated camera, under the names of realsense-ros, and /camera/capture."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header
from vlatools_interfaces.action import CaptureRgbd

from vlatools.camera import calibration
from vlatools.camera.points import point_map
from vlatools.camera.ports import RgbdFrame
from vlatools.config import find_config, load
from vlatools.core import CancelToken, ConfigError, Outcome, StaleData
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.goals import GoalRunner
from vlatools.nodes.images import camera_info, image_to_msg, points_to_msg
from vlatools.nodes.looking import look
from vlatools.nodes.ros_camera import (
    COLOR_INFO_TOPIC,
    COLOR_TOPIC,
    DEPTH_INFO_TOPIC,
    DEPTH_TOPIC,
    IMAGE_QOS,
    OPTICAL_FRAME,
    depth_to_mm,
)
from vlatools.nodes.standstill import Standstill
from vlatools.shared_clock import lab_clock, lab_now

if TYPE_CHECKING:
    from vlatools.camera.realsense import CameraConfig, CameraStatus
    from vlatools.camera.source import FrameSource

SOURCES = ("device", "file", "sim")
_DIAGNOSTICS_S = 1.0
_WAIT_S = 0.5
_LOG = logging.getLogger("vlatools.camera")


@dataclass(frozen=True)
class CameraParams:
    """Parameters of the camera node."""

    source: str = field(default="device", metadata={"help": "where frames come from: device, file or sim"})
    serial: str = field(default="", metadata={"help": "serial number of the device; empty: the only one connected"})
    file: str = field(default="", metadata={"help": "RealSense recording (.db3, .bag) for source 'file'; it repeats"})
    sim_domain: str = field(default="default", metadata={"help": "name of the simulation for source 'sim'"})
    config: str = field(default="camera.yaml", metadata={"help": "streams and limits of the capture loop"})
    calibration: str = field(default="calibration/sim_d435.yaml", metadata={"help": "camera calibration file"})

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ConfigError(f"source is {self.source!r}, it must be one of {', '.join(SOURCES)}")
        if self.source == "file" and not self.file:
            raise ConfigError("source is 'file', but file is empty: give the path of a RealSense recording")


class CameraNode(VlatoolsNode):
    """Adapter from the capture loop to ROS: each frame is published once, by a thread of its own."""

    NAME = "camera"
    PARAMS = CameraParams
    params: CameraParams

    def __init__(self) -> None:
        super().__init__()
        # Only now: librealsense must be loaded after the middleware, which came with the node. The other way round the two
        # share static objects in a way that crashes the process at its end (pyrealsense2 2.59.1, Fast DDS 3.2).
        from vlatools.camera.realsense import CameraConfig, RealSenseCamera

        config = load(CameraConfig, find_config(self.params.config))
        # A serial number that is given must be the calibration's; one that is found is compared when the camera opens.
        self._calibration = calibration.load(find_config(self.params.calibration), self.params.serial or None)
        self._camera = RealSenseCamera(self._source(config), lab_clock(), config)
        self._mismatch = ""
        self._color = self.create_publisher(Image, COLOR_TOPIC, IMAGE_QOS)
        self._depth = self.create_publisher(Image, DEPTH_TOPIC, IMAGE_QOS)
        self._color_info = self.create_publisher(CameraInfo, COLOR_INFO_TOPIC, IMAGE_QOS)
        self._depth_info = self.create_publisher(CameraInfo, DEPTH_INFO_TOPIC, IMAGE_QOS)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._standstill = Standstill(self)
        GoalRunner[Any, Any, Any](self, CaptureRgbd, "/camera/capture", self._capture)
        self.create_timer(_DIAGNOSTICS_S, self._diagnose)
        self._ending = threading.Event()
        self._camera.start()
        self._thread = threading.Thread(target=self._publish_all, name="camera-publish", daemon=True)
        self._thread.start()

    def _source(self, config: CameraConfig) -> FrameSource:
        from vlatools.camera.source import DeviceSource, FileSource

        if self.params.source == "file":
            return FileSource(self.params.file)
        if self.params.source == "device":
            return DeviceSource(self.params.serial, config.streams)
        # The lab's machine needs no simulator, so it is imported only where it is asked for.
        from vlatools.sim.d435 import SimSource
        from vlatools.sim.shared_renderer import SharedRenderer

        return SimSource(lambda: SharedRenderer(self.params.sim_domain), lab_clock(), config.streams.fps)

    def close(self) -> None:
        """End publishing and close the camera."""
        self._ending.set()
        self._camera.stop()
        self._thread.join(timeout=2 * _WAIT_S)

    # -- topics -------------------------------------------------------------------------------------------------------

    def _publish_all(self) -> None:
        last_s, reason = float("-inf"), ""
        while not self._ending.is_set():
            try:
                frame = self._camera.wait_after(last_s, _WAIT_S)
            except StaleData:
                now_reason = self._camera.status().reason
                if now_reason and now_reason != reason and not self._ending.is_set():
                    _LOG.warning(now_reason)
                reason = now_reason
                continue
            if reason:
                _LOG.info("the camera streams again")
            last_s, reason = frame.stamp_s, ""
            self._check_serial()
            if self._mismatch:
                continue  # silence is safer than positions from another camera's calibration
            try:
                self._publish(frame)
            except Exception:
                if self._ending.is_set() or not self.context.ok():
                    return  # shut down while publishing
                raise

    def _publish(self, frame: RgbdFrame) -> None:
        stamp = self.stamps.to_ros(frame.stamp_s)
        info = camera_info(frame.intrinsics, stamp, OPTICAL_FRAME)
        self._color_info.publish(info)
        self._depth_info.publish(info)
        # What nobody hears is not copied.
        if self._color.get_subscription_count():
            self._color.publish(image_to_msg(frame.color, "rgb8", stamp, OPTICAL_FRAME))
        if self._depth.get_subscription_count():
            self._depth.publish(image_to_msg(depth_to_mm(frame.depth), "16UC1", stamp, OPTICAL_FRAME))

    def _check_serial(self) -> None:
        wanted, found = self._calibration.provenance.camera_serial, self._camera.serial
        mismatch = (
            ""
            if wanted == found
            else f"the calibration {self.params.calibration} is of camera {wanted!r}, this one is {found!r}: "
            "positions from it would be wrong; calibrate this camera or give its own file"
        )
        if mismatch and mismatch != self._mismatch:
            _LOG.error(mismatch)
        self._mismatch = mismatch

    # -- capture ------------------------------------------------------------------------------------------------------

    def _capture(self, goal: CaptureRgbd.Goal, cancel: CancelToken, feedback: Callable[[Any], None]) -> CaptureRgbd.Result:
        def on_phase(phase: str, elapsed_s: float) -> None:
            feedback(CaptureRgbd.Feedback(phase=phase, elapsed=elapsed_s))

        standstill = self._standstill if goal.wait_for_standstill else None
        seen = look(self._camera, standstill, goal.timeout, cancel, on_phase)
        result = CaptureRgbd.Result(outcome=seen.outcome.value, message=seen.message)
        frame = seen.frame
        if frame is None:
            return result
        if self._mismatch:
            result.outcome, result.message = Outcome.FAULT.value, self._mismatch
            return result
        stamp = self.stamps.to_ros(frame.stamp_s)
        points = point_map(frame.depth, frame.intrinsics, self._calibration.camera_to_base)
        result.color = image_to_msg(frame.color, "rgb8", stamp, OPTICAL_FRAME)
        result.depth = image_to_msg(frame.depth, "32FC1", stamp, OPTICAL_FRAME)
        result.camera_info = camera_info(frame.intrinsics, stamp, OPTICAL_FRAME)
        result.points = points_to_msg(points, stamp)
        result.skew = float(frame.skew_s)
        age_ms = 1000 * (lab_now() - frame.stamp_s)
        result.message = f"frame {frame.number}, {age_ms:.0f} ms old when it was sent"
        return result

    # -- diagnostics --------------------------------------------------------------------------------------------------

    def _diagnose(self) -> None:
        status = self._camera.status()
        array = DiagnosticArray(header=Header(stamp=self.stamps.now()))
        array.status = [diagnostic(status, self._camera.serial, self._mismatch, self._camera.config)]
        self._diagnostics.publish(array)


def diagnostic(status: CameraStatus, serial: str, mismatch: str, config: CameraConfig) -> DiagnosticStatus:
    """State of the camera: ERROR without frames or with another camera's calibration, WARN when slow."""
    slow = status.rate_hz < 0.8 * config.streams.fps
    if mismatch or not status.streaming:
        level, message = DiagnosticStatus.ERROR, mismatch or status.reason or "no frames"
    elif slow:
        level, message = DiagnosticStatus.WARN, f"{status.rate_hz:.1f} Hz of {config.streams.fps} Hz: lower the load"
    else:
        level, message = DiagnosticStatus.OK, f"{status.rate_hz:.1f} Hz"
    values = {
        "rate_hz": f"{status.rate_hz:.1f}",
        "age_s": f"{status.age_s:.3f}",
        "latency_s": f"{status.latency_s:.3f}",
        "skew_s": f"{status.skew_s:.4f}",
        **{key: str(value) for key, value in sorted(status.counters.items())},
    }
    pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
    return DiagnosticStatus(level=level, name="camera", message=message, hardware_id=serial, values=pairs)


def main() -> int:
    """Run the node."""
    return run_node(CameraNode)


if __name__ == "__main__":
    raise SystemExit(main())
