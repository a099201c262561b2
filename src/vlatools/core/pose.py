"""Rigid poses: metres and ``quat_xyzw``, in the robot base frame ``fr3_link0`` unless a frame is named."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_UNIT_TOLERANCE = 1e-3


def normalize_quat(quat_xyzw: ArrayLike) -> NDArray[np.float64]:
    """Unit quaternion (4,) from a nearly unit one.

    Raises:
        ValueError: not four finite numbers, or the norm differs from 1 by more than 1e-3.
    """
    quat = np.asarray(quat_xyzw, dtype=float)
    if quat.shape != (4,) or not np.all(np.isfinite(quat)):
        raise ValueError(f"a quaternion is four finite numbers x y z w, got {quat_xyzw!r}")
    norm = float(np.linalg.norm(quat))
    if abs(norm - 1.0) > _UNIT_TOLERANCE:
        raise ValueError(
            f"quaternion {quat.tolist()} has norm {norm:.4f}, the limit is 1 +- {_UNIT_TOLERANCE}: normalise it, order is x y z w"
        )
    return np.asarray(quat / norm, dtype=float)


def quat_to_matrix(quat_xyzw: ArrayLike) -> NDArray[np.float64]:
    """Rotation matrix (3, 3) of a unit quaternion."""
    x, y, z, w = np.asarray(quat_xyzw, dtype=float)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix_to_quat(rotation: ArrayLike) -> NDArray[np.float64]:
    """Unit quaternion xyzw (w >= 0) of a rotation matrix (3, 3)."""
    m = np.asarray(rotation, dtype=float)
    # The symmetric 4x4 matrix whose dominant eigenvector is the quaternion is stable for every angle.
    k = np.array(
        [
            [m[0, 0] - m[1, 1] - m[2, 2], 0, 0, 0],
            [m[0, 1] + m[1, 0], m[1, 1] - m[0, 0] - m[2, 2], 0, 0],
            [m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], m[2, 2] - m[0, 0] - m[1, 1], 0],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m[0, 0] + m[1, 1] + m[2, 2]],
        ]
    )
    _, vectors = np.linalg.eigh(k)
    quat = vectors[:, -1]
    return np.asarray(quat if quat[3] >= 0 else -quat, dtype=float)


def quat_multiply(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Hamilton product a * b of two xyzw quaternions."""
    ax, ay, az, aw = np.asarray(a, dtype=float)
    bx, by, bz, bw = np.asarray(b, dtype=float)
    return np.array(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ]
    )


def quat_angle(a: ArrayLike, b: ArrayLike) -> float:
    """Angle in radians, 0 to pi, between two unit quaternions."""
    ax, ay, az, aw = np.asarray(a, dtype=float)
    delta = quat_multiply(b, (-ax, -ay, -az, aw))
    return 2.0 * math.atan2(float(np.linalg.norm(delta[:3])), abs(float(delta[3])))


def slerp(a: ArrayLike, b: ArrayLike, fraction: float) -> NDArray[np.float64]:
    """Spherical interpolation, shortest way, between unit quaternions; ``fraction`` in [0, 1]."""
    qa, qb = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    dot = float(qa @ qb)
    if dot < 0:
        qb, dot = -qb, -dot
    if dot > 0.9995:
        quat = qa + fraction * (qb - qa)
    else:
        theta = math.acos(min(1.0, dot))
        quat = (math.sin((1 - fraction) * theta) * qa + math.sin(fraction * theta) * qb) / math.sin(theta)
    return np.asarray(quat / np.linalg.norm(quat), dtype=float)


def wrap_angle(angle: float) -> float:
    """Angle in radians wrapped to (-pi, pi]."""
    wrapped = math.remainder(angle, 2 * math.pi)
    return math.pi if wrapped == -math.pi else wrapped


def down_quat(yaw: float = 0.0, pitch: float = 0.0) -> NDArray[np.float64]:
    """Orientation of a gripper that points down: Rz(yaw) Rx(pi) Ry(pitch), xyzw.

    At yaw 0 and pitch 0 the tool's x axis is base +x and its z axis is base -z.
    """
    half_yaw, half_pitch = yaw / 2, pitch / 2
    turned = quat_multiply((0, 0, math.sin(half_yaw), math.cos(half_yaw)), (1, 0, 0, 0))
    return quat_multiply(turned, (0, math.sin(half_pitch), 0, math.cos(half_pitch)))


@dataclass(frozen=True)
class Pose:
    """Position (3,) in metres and orientation ``quat_xyzw`` (4,), unit length.

    Raises:
        ValueError: position not three finite numbers, or a quaternion that is not unit length.
    """

    position: NDArray[np.float64]
    quat_xyzw: NDArray[np.float64]

    def __post_init__(self) -> None:
        position = np.array(self.position, dtype=float)
        if position.shape != (3,) or not np.all(np.isfinite(position)):
            raise ValueError(f"a position is three finite numbers in metres, got {self.position!r}")
        quat = normalize_quat(self.quat_xyzw)
        position.setflags(write=False)
        quat.setflags(write=False)
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "quat_xyzw", quat)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pose):
            return NotImplemented
        return bool(np.array_equal(self.position, other.position) and np.array_equal(self.quat_xyzw, other.quat_xyzw))

    def __hash__(self) -> int:
        return hash((self.position.tobytes(), self.quat_xyzw.tobytes()))

    @staticmethod
    def identity() -> Pose:
        """Zero position, no rotation."""
        return Pose(np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))

    @staticmethod
    def from_matrix(matrix: ArrayLike) -> Pose:
        """Pose of a homogeneous transform (4, 4)."""
        m = np.asarray(matrix, dtype=float)
        return Pose(m[:3, 3], matrix_to_quat(m[:3, :3]))

    @staticmethod
    def pointing_down(position: ArrayLike, yaw: float = 0.0, pitch: float = 0.0) -> Pose:
        """Tool pose at ``position`` with the gripper pointing down, see :func:`down_quat`."""
        return Pose(np.asarray(position, dtype=float), down_quat(yaw, pitch))

    @property
    def rotation(self) -> NDArray[np.float64]:
        """Rotation matrix (3, 3)."""
        return quat_to_matrix(self.quat_xyzw)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Homogeneous transform (4, 4)."""
        out = np.eye(4)
        out[:3, :3] = self.rotation
        out[:3, 3] = self.position
        return out

    @property
    def yaw(self) -> float:
        """Angle of the tool's x axis about base z, from the rotation matrix, so that it never flips when pointing down."""
        rotation = self.rotation
        return math.atan2(rotation[1, 0], rotation[0, 0])

    @property
    def pitch(self) -> float:
        """Tilt about the tool's own y axis; 0 points straight down, see :func:`down_quat`."""
        rotation = self.rotation
        return math.atan2(rotation[2, 0], math.hypot(rotation[0, 0], rotation[1, 0]))

    @property
    def rpy(self) -> tuple[float, float, float]:
        """Roll, pitch, yaw in radians about the fixed x, y, z axes (extrinsic xyz), as URDF and DROID write them."""
        r = self.rotation
        pitch = math.atan2(-r[2, 0], math.hypot(r[0, 0], r[1, 0]))
        if math.hypot(r[0, 0], r[1, 0]) < 1e-9:  # looking along z: roll and yaw are one, roll is set to 0
            return 0.0, pitch, math.atan2(-r[0, 1], r[1, 1])
        return math.atan2(r[2, 1], r[2, 2]), pitch, math.atan2(r[1, 0], r[0, 0])

    def __matmul__(self, other: Pose) -> Pose:
        """Compose: ``(a @ b)`` expresses b, given in frame a, in a's parent frame."""
        quat = quat_multiply(self.quat_xyzw, other.quat_xyzw)
        return Pose(self.rotation @ other.position + self.position, quat / np.linalg.norm(quat))

    def inverse(self) -> Pose:
        """The inverse transform."""
        rotation = self.rotation
        x, y, z, w = self.quat_xyzw
        return Pose(-rotation.T @ self.position, np.array([-x, -y, -z, w]))

    def distance_to(self, other: Pose) -> float:
        """Distance between the positions in metres."""
        return float(np.linalg.norm(self.position - other.position))

    def angle_to(self, other: Pose) -> float:
        """Angle between the orientations in radians, 0 to pi."""
        return quat_angle(self.quat_xyzw, other.quat_xyzw)
