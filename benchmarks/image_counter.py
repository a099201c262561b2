"""A subscriber in a process of its own: which frames were announced by camera_info, and which images arrived?"""

from __future__ import annotations

import json
import sys
import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image

from vlatools.nodes.ros_camera import COLOR_INFO_TOPIC, COLOR_TOPIC, DEPTH_TOPIC, IMAGE_QOS

# As the nodes subscribe, but with room for what comes while this process does not get the processor.
QOS = QoSProfile(depth=60, reliability=IMAGE_QOS.reliability, history=IMAGE_QOS.history)


def main(seconds: float) -> None:
    """Count for so long after the first image; print stamps as JSON."""
    rclpy.init()
    node = rclpy.create_node("image_counter")
    stamps: dict[str, list[float]] = {"announced": [], "color": [], "depth": []}
    late: list[float] = []

    def note(name: str, message: CameraInfo | Image) -> None:
        stamp = message.header.stamp.sec + message.header.stamp.nanosec / 1e9
        stamps[name].append(stamp)
        if name == "color":
            late.append(node.get_clock().now().nanoseconds / 1e9 - stamp)

    node.create_subscription(CameraInfo, COLOR_INFO_TOPIC, lambda m: note("announced", m), QOS)
    node.create_subscription(Image, COLOR_TOPIC, lambda m: note("color", m), QOS)
    node.create_subscription(Image, DEPTH_TOPIC, lambda m: note("depth", m), QOS)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    give_up_s = time.monotonic() + 30.0
    while not (stamps["color"] and stamps["depth"]) and time.monotonic() < give_up_s:
        executor.spin_once(timeout_sec=0.1)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        executor.spin_once(timeout_sec=0.1)
    print(json.dumps({**stamps, "late": late}))
    rclpy.shutdown()


if __name__ == "__main__":
    main(float(sys.argv[1]))
