"""The Franka Research 3 as data: joint placements, limits, a sphere model of its body. No algorithms here.

Sources: joint placements are those of Franka's published `fr3.urdf` (franka_description; a test compares them with the
copy that franky-sim ships). Position, velocity, acceleration and jerk limits are those of libfranka's FR3 rate limiter
and FCI documentation, the stricter value wherever two firmware versions differ. The spheres follow the capsules of
franka_description and were checked against its collision meshes (tests/robot/test_collision.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

DOF = 7
HALF_PI = math.pi / 2

# Placement of joint i in the frame of link i-1: roll about x [rad], then x y z [m]. All joints turn about their own z.
JOINT_PLACEMENTS: tuple[tuple[float, tuple[float, float, float]], ...] = (
    (0.0, (0.0, 0.0, 0.333)),
    (-HALF_PI, (0.0, 0.0, 0.0)),
    (HALF_PI, (0.0, -0.316, 0.0)),
    (HALF_PI, (0.0825, 0.0, 0.0)),
    (-HALF_PI, (-0.0825, 0.384, 0.0)),
    (HALF_PI, (0.0, 0.0, 0.0)),
    (HALF_PI, (0.088, 0.0, 0.0)),
)
FLANGE_Z = 0.107  # flange in the frame of link 7 [m]
HAND_YAW = -math.pi / 4  # Franka Hand in the flange frame, about z [rad]
HAND_TCP_Z = 0.1034  # fr3_hand_tcp in the frame of the Franka Hand [m]
FINGERTIP_Z = 0.0088  # the fingertips reach this far beyond fr3_hand_tcp [m]
MAX_OPENING = 0.08  # full opening of the Franka Hand [m]


def _vector(*values: float) -> Vector:
    out = np.array(values, dtype=float)
    out.setflags(write=False)
    return out


Q_MIN = _vector(-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159)  # [rad]
Q_MAX = _vector(2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159)
DQ_MAX = _vector(2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26)  # [rad/s]
DDQ_MAX = _vector(10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0)  # [rad/s^2]
DDDQ_MAX = _vector(5000.0, 5000.0, 5000.0, 5000.0, 5000.0, 5000.0, 5000.0)  # [rad/s^3]

# Position-dependent velocity limit: min(DQ_MAX, max(0, -offset + sqrt(slope * distance to the edge))).
_EDGE_OFFSET = _vector(0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35)
_EDGE_SLOPE = _vector(12.0, 5.17, 7.0, 8.0, 34.0, 11.0, 34.0)
_EDGE_MIN = _vector(-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196)
_EDGE_MAX = _vector(2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196)


def velocity_limits(q: Vector) -> tuple[Vector, Vector]:
    """Lowest and highest joint velocity [rad/s] that the FR3 allows at ``q`` (..., 7) rad; both shaped like ``q``."""
    up = np.minimum(DQ_MAX, np.maximum(0.0, np.sqrt(np.maximum(0.0, _EDGE_SLOPE * (_EDGE_MAX - q))) - _EDGE_OFFSET))
    down = np.minimum(DQ_MAX, np.maximum(0.0, np.sqrt(np.maximum(0.0, _EDGE_SLOPE * (q - _EDGE_MIN))) - _EDGE_OFFSET))
    return -down, up


@dataclass(frozen=True)
class Sphere:
    """One ball of the body model: ``link`` 0 to 7, 8 for the Franka Hand; centre [m] in that link's frame; radius [m]."""

    link: int
    center: tuple[float, float, float]
    radius: float


HAND = 8

SPHERES: tuple[Sphere, ...] = (
    Sphere(0, (-0.09, 0.0, 0.06), 0.10),
    Sphere(0, (-0.01, 0.0, 0.07), 0.10),
    Sphere(1, (0.0, 0.0, -0.16), 0.075),
    Sphere(1, (0.0, 0.0, -0.08), 0.075),
    Sphere(1, (0.0, -0.02, 0.0), 0.075),
    Sphere(1, (0.0, -0.07, 0.0), 0.075),
    Sphere(2, (0.0, 0.0, 0.0), 0.075),
    Sphere(2, (0.0, 0.0, 0.07), 0.075),
    Sphere(2, (0.0, -0.07, 0.0), 0.075),
    Sphere(2, (0.0, -0.14, 0.0), 0.075),
    Sphere(3, (0.0, 0.0, -0.07), 0.075),
    Sphere(3, (0.02, 0.02, 0.0), 0.075),
    Sphere(3, (0.0825, 0.02, 0.0), 0.075),
    Sphere(3, (0.0825, 0.06, 0.0), 0.075),
    Sphere(4, (0.0, 0.0, 0.0), 0.075),
    Sphere(4, (0.0, 0.0, 0.06), 0.075),
    Sphere(4, (-0.06, 0.05, 0.0), 0.075),
    Sphere(4, (-0.0825, 0.075, 0.0), 0.075),
    Sphere(5, (0.0, 0.0, -0.22), 0.068),
    Sphere(5, (0.0, 0.03, -0.17), 0.060),
    Sphere(5, (0.0, 0.065, -0.12), 0.050),
    Sphere(5, (0.0, 0.085, -0.06), 0.050),
    Sphere(5, (0.0, 0.075, 0.0), 0.065),
    Sphere(5, (0.0, 0.0, 0.0), 0.070),
    Sphere(6, (0.0, 0.0, 0.0), 0.065),
    Sphere(6, (0.05, 0.02, 0.0), 0.060),
    Sphere(6, (0.088, 0.03, 0.0), 0.065),
    Sphere(6, (0.088, -0.015, 0.0), 0.065),
    Sphere(7, (0.0, 0.0, 0.08), 0.060),
    Sphere(7, (0.045, 0.045, 0.08), 0.045),
    Sphere(HAND, (0.0, -0.065, 0.02), 0.052),
    Sphere(HAND, (0.0, 0.0, 0.02), 0.052),
    Sphere(HAND, (0.0, 0.065, 0.02), 0.052),
    Sphere(HAND, (0.0, 0.0, 0.06), 0.045),
    Sphere(HAND, (0.0, -0.035, 0.09), 0.026),
    Sphere(HAND, (0.0, 0.035, 0.09), 0.026),
)

# Pairs of links that can meet within the joint limits; neighbours in the chain cannot and overlap by construction.
LINK_PAIRS: tuple[tuple[int, int], ...] = (
    (0, 4), (0, 5), (0, 6), (0, 7), (0, HAND),
    (1, 4), (1, 5), (1, 6), (1, 7), (1, HAND),
    (2, 5), (2, 6), (2, 7), (2, HAND),
    (3, 6), (3, 7), (3, HAND),
    (4, 7), (4, HAND),
    (5, HAND),
)  # fmt: skip

# Corners of hand and fingers in the frame of fr3_hand_tcp that must stay above the table [m].
TOOL_POINTS: tuple[tuple[float, float, float], ...] = tuple(
    (x, y, FINGERTIP_Z) for x in (-0.011, 0.011) for y in (-0.055, 0.055)
) + tuple((x, y, 0.066 - HAND_TCP_Z) for x in (-0.032, 0.032) for y in (-0.104, 0.104))
