"""One transform for training and serving: pictures to point maps, states to features, actions to deltas and back."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics
from vlatools.core import Pose
from vlatools.core.pose import wrap_angle
from vlatools.policy.analytic.path import tool_vector, vector_quat
from vlatools.policy.picture import HEIGHT, WIDTH

Vector = NDArray[np.float64]

HORIZON, DT, RATE_HZ = 16, 0.1, 4.0
CELL = 4  # pixels of the picture that one cell of the feature map has, each way
FEATURES = 14  # of the state
ACTIONS = 6  # dx dy dz [m], dyaw, dtilt [rad], opening [m]
ACTION_SCALE = np.array([0.05, 0.05, 0.05, 0.3, 0.2, 0.08])
CENTER, SPREAD = np.array([0.5, 0.0, 0.1]), 0.2  # m: point maps are shifted and scaled by these
_CLOSED = 0.016  # m: a smaller opening means to close with force
_SECONDS = 10.0


def points(depth: NDArray[np.uint16], intrinsics: Intrinsics, camera_to_base: Pose) -> NDArray[np.float32]:
    """Point map float32 (4, H, W): x y z in fr3_link0, shifted and scaled, and 1 where the depth is known (else all 0)."""
    z = depth.astype(np.float64) / 1000
    u, v = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    ray = np.stack([(u - intrinsics.cx) / intrinsics.fx, (v - intrinsics.cy) / intrinsics.fy, np.ones_like(z)])
    base = np.einsum("ij,jhw->ihw", camera_to_base.matrix[:3, :3], ray * z) + camera_to_base.position[:, None, None]
    known = (depth > 0).astype(np.float64)
    scaled = (base - CENTER[:, None, None]) / SPREAD * known
    return np.concatenate([scaled, known[None]]).astype(np.float32)


def features(state: Vector, start: Vector, elapsed_s: float) -> NDArray[np.float32]:
    """State features (14,) from state and start state (11,) in the order of ``STATE_LAYOUT``, and seconds since the start."""
    now, then = (tool_vector(Pose(row[:3], row[3:7])) for row in (state, start))
    moved = (now[:3] - then[:3]) / SPREAD
    out = [
        *((now[:3] - CENTER) / SPREAD), math.sin(now[3]), math.cos(now[3]), 5 * now[4],
        state[7] / 0.08, state[8], state[9] / 0.08, *moved, start[7] / 0.08, min(elapsed_s / _SECONDS, 2.0),
    ]  # fmt: skip
    return np.array(out, np.float32)


def deltas(now: Pose, rows: Vector) -> NDArray[np.float32]:
    """Scaled actions (H, 6) of rows (H, 8) x y z qx qy qz qw opening, relative to the tool ``now``."""
    here = tool_vector(now)
    out = np.empty((len(rows), ACTIONS))
    for i, row in enumerate(rows):
        there = tool_vector(Pose(row[:3], row[3:7]))
        out[i] = [*(there[:3] - here[:3]), wrap_angle(there[3] - here[3]), there[4] - here[4], row[7]]
    return (out / ACTION_SCALE).astype(np.float32)


def rows(now: Pose, scaled: NDArray[np.float32]) -> Vector:
    """Inverse of ``deltas``: EE_POSE rows (H, 8)."""
    here = tool_vector(now)
    actions = scaled.astype(float) * ACTION_SCALE
    out = np.empty((len(actions), 8))
    for i, action in enumerate(actions):
        there = here.copy()
        there[:5] += action[:5]
        opening = 0.0 if action[5] < _CLOSED else min(action[5], 0.08)
        out[i] = [*there[:3], *vector_quat(there), opening]
    return out
