"""ROS stamps and monotonic seconds, also when the ROS clock jumps (C111)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from rclpy.clock import ROSClock
from rclpy.node import Node
from rclpy.time import Time

from vlatools.nodes.stamps import Stamps


@pytest.fixture
def node(ros: None) -> Iterator[Any]:
    made = Node("stamps_test")
    yield made
    made.destroy_node()


def jump(node: Node, to_s: float) -> None:
    """Set the node's ROS clock."""
    clock = node.get_clock()
    assert isinstance(clock, ROSClock)
    clock._set_ros_time_is_active(True)
    clock.set_ros_time_override(Time(seconds=to_s, clock_type=clock.clock_type))


def test_there_and_back(node: Node) -> None:
    stamps, now = Stamps(node), time.monotonic()
    for age in (0.0, 0.066, 3.0):
        assert stamps.to_monotonic(stamps.to_ros(now - age)) == pytest.approx(now - age, abs=2e-3)


def test_stamp_of_now_is_ros_time(node: Node) -> None:
    stamp = Stamps(node).to_ros(time.monotonic())
    assert stamp.sec + stamp.nanosec / 1e9 == pytest.approx(node.get_clock().now().nanoseconds / 1e9, abs=0.05)


@pytest.mark.parametrize("by_s", [-10.0, 10.0, 1e6])
def test_a_jump_of_the_ros_clock_does_not_move_durations(node: Node, by_s: float) -> None:
    stamps = Stamps(node)
    jump(node, 1000.0)
    begin = time.monotonic()
    before = stamps.to_monotonic(stamps.to_ros(begin))
    jump(node, 1000.0 + max(by_s, -900.0))
    after = stamps.to_monotonic(stamps.to_ros(begin))
    assert after == pytest.approx(before, abs=5e-3)
    assert after == pytest.approx(begin, abs=5e-3)


def test_a_stamp_before_the_epoch_is_the_epoch(node: Node) -> None:
    jump(node, 1.0)
    assert Stamps(node).to_ros(time.monotonic() - 100.0).sec == 0
