"""Messages and core types: what goes in comes out again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from hypothesis import given
from hypothesis import strategies as st
from sensor_msgs.msg import Image

from vlatools.core import ActionChunk, ActionSpace, ChunkRefused, Family, Invocation, MonitorOverrides, Pose, Rejected
from vlatools.nodes import convert, images

finite = st.floats(-10, 10)


class FixedStamps:
    """Monotonic equals ROS time."""

    def to_ros(self, monotonic_s: float) -> Time:
        return Time(sec=int(monotonic_s), nanosec=int((monotonic_s % 1) * 1e9))

    def to_monotonic(self, stamp: Time) -> float:
        return stamp.sec + stamp.nanosec / 1e9


STAMPS: Any = FixedStamps()


@given(st.tuples(finite, finite, finite), st.floats(-3, 3), st.floats(-1, 1))
def test_pose(position: tuple[float, float, float], yaw: float, pitch: float) -> None:
    pose = Pose.pointing_down(np.array(position), yaw, pitch)
    assert convert.pose_from_msg(convert.pose_to_msg(pose)).distance_to(pose) == 0
    assert convert.pose_from_msg(convert.pose_to_msg(pose)).angle_to(pose) < 1e-7


def test_a_pose_without_orientation_is_refused() -> None:
    message = convert.pose_to_msg(Pose.identity())
    message.orientation.w = 0.0
    with pytest.raises(Rejected, match="norm 0"):
        convert.pose_from_msg(message)


@given(st.integers(1, 30), st.floats(0.01, 1.0))
def test_chunk(rows: int, dt: float) -> None:
    actions = np.random.default_rng(rows).uniform(-1, 1, (rows, 8))
    chunk = ActionChunk("abc", 3, ActionSpace.JOINT_POSITION, 12.5, dt, actions)
    back = convert.chunk_from_msg(convert.chunk_to_msg(chunk, STAMPS), STAMPS)
    assert np.array_equal(back.actions, chunk.actions)
    assert (back.invocation_id, back.index, back.space, back.dt) == ("abc", 3, ActionSpace.JOINT_POSITION, dt)
    assert back.stamp_s == pytest.approx(12.5)


def test_a_chunk_message_of_the_wrong_shape_or_content_is_refused() -> None:
    chunk = ActionChunk("abc", 0, ActionSpace.JOINT_POSITION, 0.0, 0.1, np.zeros((2, 8)))
    message = convert.chunk_to_msg(chunk, STAMPS)
    message.horizon = 3
    with pytest.raises(Rejected, match="16 numbers, horizon 3 needs 24"):
        convert.chunk_from_msg(message, STAMPS)
    message = convert.chunk_to_msg(chunk, STAMPS)
    message.actions[5] = math.nan
    with pytest.raises(ChunkRefused, match="row 0"):
        convert.chunk_from_msg(message, STAMPS)
    message = convert.chunk_to_msg(chunk, STAMPS)
    message.action_space = 9
    with pytest.raises(Rejected, match="action space 9"):
        convert.chunk_from_msg(message, STAMPS)


def test_invocation() -> None:
    given_one = Invocation(
        Family.PUSH,
        "push the red cube forward",
        object="red cube",
        position=np.array([0.5, 0.1, 0.0]),
        horizon_s=9.0,
        overrides=MonitorOverrides(stall_window_s=2.0),
        plan_generation=4,
    )
    back = convert.invocation_from_goal(convert.invocation_to_goal(given_one))
    assert back.position is not None
    assert np.array_equal(back.position, [0.5, 0.1, 0.0])
    assert (back.id, back.family, back.object, back.horizon_s, back.overrides, back.plan_generation, back.angle) == (
        given_one.id,
        Family.PUSH,
        "red cube",
        9.0,
        given_one.overrides,
        4,
        None,
    )


def test_an_unknown_family_names_the_known_ones() -> None:
    goal = convert.invocation_to_goal(Invocation(Family.PUSH, "x"))
    goal.family = "graspp"
    with pytest.raises(Rejected, match=r"graspp.*grasp"):
        convert.invocation_from_goal(goal)


@pytest.mark.parametrize(("encoding", "kind", "channels"), [("rgb8", np.uint8, 3), ("16UC1", np.uint16, 1), ("32FC1", np.float32, 1)])
def test_image(encoding: str, kind: Any, channels: int) -> None:
    shape = (4, 6, 3) if channels == 3 else (4, 6)
    image = np.random.default_rng(0).integers(0, 255, shape).astype(kind)
    message = images.image_to_msg(image, encoding, Time(), "camera")
    assert message.step == 6 * channels * image.itemsize
    assert np.array_equal(images.image_from_msg(message), image)


def test_bgr_is_converted_and_an_unknown_encoding_refused() -> None:
    rgb = np.zeros((2, 2, 3), np.uint8)
    rgb[..., 0] = 200
    message = images.image_to_msg(rgb[..., ::-1], "bgr8", Time(), "camera")
    assert np.array_equal(images.image_from_msg(message), rgb)
    with pytest.raises(Rejected, match="yuv422"):
        images.image_from_msg(Image(encoding="yuv422"))


def test_json_has_no_nan_and_takes_arrays() -> None:
    data = {"a": np.array([1.0, math.nan]), "b": np.float32(2.0), "c": (math.inf,)}
    assert convert.to_json(data) == '{"a": [1.0, null], "b": 2.0, "c": [null]}'
