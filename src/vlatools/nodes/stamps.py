"""Monotonic seconds inside, ROS stamps in messages: the one place where they meet."""

from __future__ import annotations

import time

from builtin_interfaces.msg import Time
from rclpy.node import Node

from vlatools.shared_clock import SharedClock, lab_clock

_NS = 1_000_000_000
_GOOD_NS = 100_000
_TRIES = 5


class Stamps:
    """Converts between the host's monotonic clock and a node's ROS clock.

    The offset is taken anew at each call, so a jump of the ROS clock falsifies only messages that are under way. In a simulated
    lab both are the simulation's time, a constant apart.
    """

    def __init__(self, node: Node) -> None:
        self._clock = node.get_clock()
        self._lab = lab_clock()

    def now(self) -> Time:
        """The ROS time now."""
        return self.to_ros(self._lab.now())

    def to_ros(self, monotonic_s: float) -> Time:
        """ROS stamp of a monotonic time in seconds."""
        nanoseconds = max(0, int(monotonic_s * _NS) + self._offset_ns())
        return Time(sec=nanoseconds // _NS, nanosec=nanoseconds % _NS)

    def to_monotonic(self, stamp: Time) -> float:
        """Monotonic seconds of a ROS stamp."""
        return (stamp.sec * _NS + stamp.nanosec - self._offset_ns()) / _NS

    def _offset_ns(self) -> int:
        """ROS time less monotonic time. The two clocks are read one after the other: a reading between which the thread had to
        wait is taken again."""
        if isinstance(self._lab, SharedClock):
            return int(self._lab.epoch_offset_s * _NS)
        best_span, best = _NS, 0
        for _ in range(_TRIES):
            before = time.monotonic_ns()
            ros = self._clock.now().nanoseconds
            span = time.monotonic_ns() - before
            if span < best_span:
                best_span, best = span, ros - before - span // 2
            if span < _GOOD_NS:
                break
        return int(best)
