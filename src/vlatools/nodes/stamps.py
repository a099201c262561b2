"""Monotonic seconds inside, ROS stamps in messages: the one place where they meet."""

from __future__ import annotations

import time

from builtin_interfaces.msg import Time
from rclpy.node import Node

_NS = 1_000_000_000


class Stamps:
    """Converts between the host's monotonic clock and a node's ROS clock.

    The offset is taken anew at each call, so a jump of the ROS clock falsifies only messages that are under way.
    """

    def __init__(self, node: Node) -> None:
        self._clock = node.get_clock()

    def now(self) -> Time:
        """The ROS time now."""
        return self._clock.now().to_msg()

    def to_ros(self, monotonic_s: float) -> Time:
        """ROS stamp of a monotonic time in seconds."""
        ago_ns = int((time.monotonic() - monotonic_s) * _NS)
        nanoseconds = max(0, self._clock.now().nanoseconds - ago_ns)
        return Time(sec=nanoseconds // _NS, nanosec=nanoseconds % _NS)

    def to_monotonic(self, stamp: Time) -> float:
        """Monotonic seconds of a ROS stamp."""
        ago_ns = self._clock.now().nanoseconds - (stamp.sec * _NS + stamp.nanosec)
        return time.monotonic() - ago_ns / _NS
