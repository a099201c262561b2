"""The camera as other nodes see it: the RgbdCamera port over the camera node's topics."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, Image

from vlatools.camera.ports import RgbdFrame
from vlatools.core import Rejected, StaleData
from vlatools.nodes.images import image_from_msg, intrinsics_from_msg
from vlatools.nodes.stamps import Stamps
from vlatools.shared_clock import lab_now

COLOR_TOPIC = "/camera/color/image_raw"
COLOR_INFO_TOPIC = "/camera/color/camera_info"
DEPTH_TOPIC = "/camera/aligned_depth_to_color/image_raw"
DEPTH_INFO_TOPIC = "/camera/aligned_depth_to_color/camera_info"
OPTICAL_FRAME = "camera_color_optical_frame"
# Reliable, and deep enough for a subscriber that is held up for half a second: every frame arrives. Eight pairs fit into the
# shared-memory segment of config/fastdds.xml.
IMAGE_QOS = QoSProfile(depth=8, reliability=ReliabilityPolicy.RELIABLE, history=HistoryPolicy.KEEP_LAST)
_UNPAIRED = 4


def depth_to_mm(depth: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Whole millimetres, 0 where unknown or beyond 65 m, of metres: the ``16UC1`` of REP 118 and realsense-ros."""
    counts = np.nan_to_num(np.rint(depth * np.float32(1000.0)), nan=0.0, posinf=0.0, neginf=0.0)
    counts[(counts < 0) | (counts > 65535)] = 0
    return np.asarray(counts, dtype=np.uint16)


def depth_from_msg(message: Image) -> NDArray[np.float32]:
    """Metres, float32 (H, W), NaN where unknown, of a ``16UC1`` (mm) or ``32FC1`` (m) image (REP 118).

    Raises:
        Rejected: another encoding.
    """
    if message.encoding == "16UC1":
        counts = image_from_msg(message)
        depth = counts.astype(np.float32) * np.float32(0.001)
        depth[counts == 0] = np.nan
        return np.asarray(depth, dtype=np.float32)
    if message.encoding == "32FC1":
        depth = np.array(image_from_msg(message), dtype=np.float32)
        depth[~(np.isfinite(depth) & (depth > 0))] = np.nan
        return depth
    raise Rejected(
        "bad_encoding",
        f"depth image has encoding {message.encoding!r}, it must be 16UC1 (millimetres) or 32FC1 (metres), see REP 118",
    )


def color_from_msg(message: Image) -> NDArray[np.uint8]:
    """RGB, uint8 (H, W, 3), of an ``rgb8`` or ``bgr8`` image. Raises Rejected for another encoding."""
    if message.encoding not in ("rgb8", "bgr8"):
        raise Rejected("bad_encoding", f"colour image has encoding {message.encoding!r}, it must be rgb8 or bgr8")
    return np.ascontiguousarray(image_from_msg(message), dtype=np.uint8)


class RosCamera:
    """Pairs colour and depth by stamp and keeps the newest pair. Implements RgbdCamera.

    Callbacks only store; images are converted when they are asked for. ``latest`` and ``wait_after`` are for worker threads:
    they block the caller, and the node must be spinning elsewhere.
    """

    def __init__(self, node: Node) -> None:
        self._stamps = Stamps(node)
        self._arrived = threading.Condition()
        self._waiting: OrderedDict[tuple[int, int], dict[str, Image]] = OrderedDict()
        self._info: CameraInfo | None = None
        self._pair: tuple[float, int, Image, Image] | None = None
        self._frame: RgbdFrame | None = None
        self._subscriptions = [
            node.create_subscription(Image, COLOR_TOPIC, lambda message: self._on_image("color", message), IMAGE_QOS),
            node.create_subscription(Image, DEPTH_TOPIC, lambda message: self._on_image("depth", message), IMAGE_QOS),
            node.create_subscription(CameraInfo, COLOR_INFO_TOPIC, self._on_info, IMAGE_QOS),
        ]

    def latest(self, max_age_s: float) -> RgbdFrame:
        """See RgbdCamera."""
        with self._arrived:
            pair = self._pair
            age = float("inf") if pair is None else lab_now() - pair[0]
            if pair is None or age > max_age_s:
                raise StaleData("camera", age, max_age_s, self._advice())
            return self._converted(pair)

    def wait_after(self, stamp_s: float, timeout_s: float) -> RgbdFrame:
        """See RgbdCamera."""
        deadline = lab_now() + timeout_s
        with self._arrived:
            while True:
                pair = self._pair
                if pair is not None and pair[0] > stamp_s:
                    return self._converted(pair)
                remaining = deadline - lab_now()
                if remaining <= 0:
                    age = float("inf") if pair is None else lab_now() - pair[0]
                    raise StaleData("camera", age, timeout_s, self._advice())
                self._arrived.wait(remaining)

    def _advice(self) -> str:
        if self._info is None:
            return f"nothing has come on {COLOR_INFO_TOPIC}: is the camera node running?"
        return "the camera node publishes no newer frame: see /diagnostics"

    def _on_info(self, message: CameraInfo) -> None:
        with self._arrived:
            self._info = message
            self._take_pairs()

    def _on_image(self, kind: str, message: Image) -> None:
        with self._arrived:
            self._waiting.setdefault((message.header.stamp.sec, message.header.stamp.nanosec), {})[kind] = message
            self._take_pairs()
            while len(self._waiting) > _UNPAIRED:
                self._waiting.popitem(last=False)

    def _take_pairs(self) -> None:
        """Take the pairs that are complete, once the camera model is known; the lock is held."""
        if self._info is None:
            return
        for key in [key for key, images in self._waiting.items() if len(images) == 2]:
            images = self._waiting.pop(key)
            stamp_s = self._stamps.to_monotonic(images["color"].header.stamp)
            if self._pair is None or stamp_s > self._pair[0]:
                number = 1 if self._pair is None else self._pair[1] + 1
                self._pair = (stamp_s, number, images["color"], images["depth"])
                self._arrived.notify_all()

    def _converted(self, pair: tuple[float, int, Image, Image]) -> RgbdFrame:
        """Arrays of a pair, made once; the lock is held."""
        stamp_s, number, color, depth = pair
        if self._frame is None or self._frame.number != number:
            intrinsics = intrinsics_from_msg(self._info)
            self._frame = RgbdFrame(stamp_s, number, color_from_msg(color), depth_from_msg(depth), intrinsics)
        return self._frame
