"""Batches with the variation that a lab has and the recordings have not: light, tint, and a calibration that is a little wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlatools.core import Pose
from vlatools.core.pose import quat_multiply
from vlatools.policy.tiny.transform import CENTER, SPREAD, points
from vlatools.tapt.units import Samples

CAMERA_SHIFT, CAMERA_TURN = 0.010, 0.0175  # m and rad (1 cm, 1 degree), the largest error of the calibration each way
_GAIN, _TINT, _NOISE = 0.25, 0.12, 4.0


@dataclass(frozen=True)
class Batch:
    """What one training step needs; see ``TinyVla.forward`` and ``Samples``."""

    color: Tensor
    points: Tensor
    words: Tensor
    state: Tensor
    position: Tensor
    actions: Tensor
    progress: Tensor
    goals: Tensor
    turn: Tensor
    family: Tensor


def make_batch(samples: Samples, rows: NDArray[np.int64], rng: np.random.Generator | None) -> Batch:
    """The samples ``rows``; varied if ``rng`` is given. Goals are where the (wrong) calibration shows them."""
    color = samples.color[rows].astype(np.float32)
    maps, goals = [], []
    for row in rows:
        true = Pose(samples.camera[row, :3], samples.camera[row, 3:])
        believed = true if rng is None else _misplaced(true, rng)
        maps.append(points(samples.depth[row], samples.intrinsics, believed))
        moved = believed.matrix @ np.linalg.inv(true.matrix)
        goals.append((samples.goals[row] @ moved[:3, :3].T + moved[:3, 3] - CENTER) / SPREAD)
    if rng is not None:
        gain = rng.uniform(1 - _GAIN, 1 + _GAIN, (len(rows), 1, 1, 1)) * rng.uniform(1 - _TINT, 1 + _TINT, (len(rows), 1, 1, 3))
        color = color * gain.astype(np.float32) + rng.normal(0, _NOISE, color.shape).astype(np.float32)
    pixels = np.clip(color, 0, 255).astype(np.uint8).transpose(0, 3, 1, 2)
    return Batch(
        color=torch.from_numpy(np.ascontiguousarray(pixels)),
        points=torch.from_numpy(np.stack(maps)),
        words=torch.from_numpy(samples.words[rows]),
        state=torch.from_numpy(samples.state[rows]),
        position=torch.from_numpy(samples.position[rows]),
        actions=torch.from_numpy(samples.actions[rows]),
        progress=torch.from_numpy(samples.progress[rows].astype(np.float32)),
        goals=torch.from_numpy(np.stack(goals).astype(np.float32)),
        turn=torch.from_numpy(samples.turn[rows]),
        family=torch.from_numpy(samples.family[rows]),
    )


def _misplaced(pose: Pose, rng: np.random.Generator) -> Pose:
    turn = rng.uniform(-CAMERA_TURN, CAMERA_TURN, 3) / 2
    quat = quat_multiply(np.array([*turn, np.sqrt(1 - turn @ turn)]), pose.quat_xyzw)
    return Pose(pose.position + rng.uniform(-CAMERA_SHIFT, CAMERA_SHIFT, 3), quat)
