"""Poses: composition, the downward gripper, and the conventions that labs get wrong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlatools.core import Pose
from vlatools.core.pose import (
    down_quat,
    matrix_to_quat,
    normalize_quat,
    quat_angle,
    quat_multiply,
    quat_to_matrix,
    slerp,
    wrap_angle,
)

angles = st.floats(-math.pi, math.pi)


def _axis(index: int, angle: float) -> np.ndarray:
    quat = np.zeros(4)
    quat[index], quat[3] = math.sin(angle / 2), math.cos(angle / 2)
    return quat


def test_forward_in_the_tool_frame_is_down_in_the_base_frame() -> None:
    """C13: the tool is turned 180 degrees about x, so relative +z of the tool is -z of the base."""
    tool = Pose.pointing_down((0.5, 0.1, 0.3))
    moved = tool @ Pose(np.array([0.0, 0.0, 0.1]), np.array([0.0, 0.0, 0.0, 1.0]))
    assert moved.position == pytest.approx([0.5, 0.1, 0.2])


def test_left_of_the_tool_is_right_of_the_base() -> None:
    tool = Pose.pointing_down((0.5, 0.0, 0.3))
    moved = tool @ Pose(np.array([0.0, 0.1, 0.0]), np.array([0.0, 0.0, 0.0, 1.0]))
    assert moved.position == pytest.approx([0.5, -0.1, 0.3])


@given(yaw=angles)
def test_yaw_of_a_downward_gripper_never_flips(yaw: float) -> None:
    """C67: yaw comes from the rotation matrix."""
    assert wrap_angle(Pose.pointing_down((0, 0, 0), yaw).yaw - yaw) == pytest.approx(0.0, abs=1e-9)


def test_yaw_sweep_is_monotone() -> None:
    yaws = np.linspace(-3.1, 3.1, 200)
    measured = [Pose.pointing_down((0, 0, 0), y).yaw for y in yaws]
    assert np.all(np.diff(measured) > 0)


def test_fixed_and_moving_axis_euler_angles_differ() -> None:
    """C67 golden: extrinsic xyz and intrinsic XYZ of (0.3, 0.2, 0.1) are different rotations."""
    x, y, z = _axis(0, 0.3), _axis(1, 0.2), _axis(2, 0.1)
    extrinsic = quat_multiply(z, quat_multiply(y, x))
    intrinsic = quat_multiply(x, quat_multiply(y, z))
    assert quat_to_matrix(extrinsic)[0] == pytest.approx([0.975170, -0.036957, 0.218351], abs=1e-6)
    assert quat_to_matrix(intrinsic)[0] == pytest.approx([0.975170, -0.097843, 0.198669], abs=1e-6)
    assert quat_angle(extrinsic, intrinsic) > 0.04


@given(yaw=angles, pitch=st.floats(-1.4, 1.4))
def test_pitch_and_yaw_are_read_back(yaw: float, pitch: float) -> None:
    pose = Pose.pointing_down((0, 0, 0), yaw, pitch)
    assert pose.pitch == pytest.approx(pitch, abs=1e-9)
    assert wrap_angle(pose.yaw - yaw) == pytest.approx(0.0, abs=1e-9)


@given(a=angles, b=angles, c=angles)
def test_matrix_and_quaternion_agree(a: float, b: float, c: float) -> None:
    quat = quat_multiply(_axis(2, c), quat_multiply(_axis(1, b), _axis(0, a)))
    back = matrix_to_quat(quat_to_matrix(quat))
    assert quat_angle(quat, back) < 1e-6


@given(a=angles, b=angles)
def test_inverse_undoes(a: float, b: float) -> None:
    pose = Pose(np.array([a, b, 0.2]), quat_multiply(_axis(0, a), _axis(2, b)))
    one = pose @ pose.inverse()
    assert np.linalg.norm(one.position) < 1e-9
    assert one.angle_to(Pose.identity()) < 1e-6


def test_slerp_ends_and_middle() -> None:
    a, b = down_quat(0.0), down_quat(1.0)
    assert quat_angle(slerp(a, b, 0.0), a) < 1e-9
    assert quat_angle(slerp(a, b, 1.0), b) < 1e-9
    assert quat_angle(slerp(a, b, 0.5), down_quat(0.5)) < 1e-9
    assert quat_angle(slerp(a, -b, 0.5), down_quat(0.5)) < 1e-9  # the short way, whatever the sign


@pytest.mark.parametrize("bad", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 0, math.nan), (0, 0, 1)])
def test_a_quaternion_that_is_none_is_refused(bad: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="quaternion"):
        normalize_quat(bad)


def test_a_position_without_orientation_cannot_be_made() -> None:
    """C2: orientation is never silently the identity."""
    with pytest.raises(TypeError):
        Pose(np.array([0, 0, 0.5]))  # type: ignore[call-arg]


def test_a_pose_is_frozen() -> None:
    pose = Pose.identity()
    with pytest.raises(ValueError, match="read-only"):
        pose.position[0] = 1.0


@given(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1))
def test_rpy_is_extrinsic_xyz(roll: float, pitch: float, yaw: float) -> None:
    rx, ry, rz = (
        Pose(np.zeros(3), np.array([*(math.sin(a / 2) * np.eye(3)[i]), math.cos(a / 2)])) for i, a in enumerate((roll, pitch, yaw))
    )
    assert np.allclose((rz @ ry @ rx).rpy, (roll, pitch, yaw), atol=1e-6)
