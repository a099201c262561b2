"""Judges a reply before anything of it goes to the arm: shape, numbers, quaternions, jumps, progress."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ActionSpace, ChunkRefused
from vlatools.core.pose import quat_angle
from vlatools.policy.openpi.config import ReplyLimits
from vlatools.robot.ports import ArmState

_NORM = 1e-2  # of a quaternion
_OPENING = (-0.005, 0.085)  # m; the FR3's hand opens 0.08
_PROGRESS = 0.01  # outside [0, 1]


def rows_of(reply: dict[str, Any], horizon: int, width: int) -> NDArray[np.float64]:
    """``actions`` as float64 (horizon, width). Raises ChunkRefused: none, another shape, no numbers, NaN or infinity."""
    return _numbers("actions", reply.get("actions"), (horizon, width))


def progress_of(reply: dict[str, Any], horizon: int) -> float:
    """Progress at the observation: the value of the first action. Raises ChunkRefused: not (horizon,) numbers in [0, 1]."""
    values = _numbers("progress", reply.get("progress"), (horizon,))
    if values.min() < -_PROGRESS or values.max() > 1 + _PROGRESS:
        raise ChunkRefused(
            "bad_progress", f"progress goes from {values.min():.3f} to {values.max():.3f}, the limits are 0 and 1: see the policy's head"
        )
    return float(values[0])


def check_rows(rows: NDArray[np.float64], space: ActionSpace, arm: ArmState, limits: ReplyLimits) -> None:
    """Check a chunk (H, 8) against the state that it starts from.

    Raises:
        ChunkRefused: an opening or a position out of reach, a quaternion that is not of unit length or in another order, or a jump.
    """
    openings = rows[:, 7]
    if openings.min() < _OPENING[0] or openings.max() > _OPENING[1]:
        raise ChunkRefused(
            "bad_opening",
            f"openings go from {openings.min():.3f} to {openings.max():.3f} m, the gripper opens 0 to 0.08: are the actions un-normalised?",
        )
    if space is ActionSpace.JOINT_POSITION:
        _check_joints(rows, arm, limits)
    else:
        _check_poses(rows, arm, limits)


def _check_joints(rows: NDArray[np.float64], arm: ArmState, limits: ReplyLimits) -> None:
    steps = np.abs(np.diff(np.vstack([arm.q, rows[:, :7]]), axis=0))
    row, joint = np.unravel_index(int(np.argmax(steps)), steps.shape)
    if steps[row, joint] > limits.jump_joint:
        raise ChunkRefused(
            "jump",
            f"row {row} turns joint {joint + 1} by {steps[row, joint]:.2f} rad, the limit is {limits.jump_joint:.2f}: see the policy",
        )


def _check_poses(rows: NDArray[np.float64], arm: ArmState, limits: ReplyLimits) -> None:
    norms = np.linalg.norm(rows[:, 3:7], axis=1)
    row = int(np.argmax(np.abs(norms - 1)))
    if abs(norms[row] - 1) > _NORM:
        raise ChunkRefused(
            "bad_quaternion", f"row {row}: quaternion norm {norms[row]:.3f}, the limit is 1 +- {_NORM}: are the actions un-normalised?"
        )
    quats = np.vstack([arm.ee.quat_xyzw, rows[:, 3:7] / norms[:, None]])
    turns = np.array([quat_angle(a, b) for a, b in pairwise(quats)])
    row = int(np.argmax(turns))
    if turns[row] > limits.jump_rotation:
        swapped = quat_angle(quats[0], np.roll(quats[1], -1)) <= limits.jump_rotation
        hint = "the numbers are in the order w x y z, send x y z w" if row == 0 and swapped else "see the policy"
        raise ChunkRefused(
            "bad_quaternion" if row == 0 and swapped else "jump",
            f"row {row} turns the tool by {turns[row]:.2f} rad, the limit is {limits.jump_rotation:.2f}: {hint}",
        )
    low, high = np.array(limits.workspace_min), np.array(limits.workspace_max)
    outside = np.flatnonzero(np.any((rows[:, :3] < low) | (rows[:, :3] > high), axis=1))
    if len(outside):
        raise ChunkRefused(
            "workspace",
            f"row {outside[0]} asks for {np.round(rows[outside[0], :3], 3).tolist()} m, within reach is {low.tolist()} to {high.tolist()}: "
            f"are the actions un-normalised, in metres and in fr3_link0?",
        )
    steps = np.linalg.norm(np.diff(np.vstack([arm.ee.position, rows[:, :3]]), axis=0), axis=1)
    row = int(np.argmax(steps))
    if steps[row] > limits.jump_position:
        raise ChunkRefused(
            "jump", f"row {row} moves the tool by {steps[row]:.3f} m, the limit is {limits.jump_position:.2f}: see the policy"
        )


def _numbers(key: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    if value is None:
        raise ChunkRefused("wrong_shape", f"the reply has no {key}: see the server")
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.shape != shape:
        raise ChunkRefused("wrong_shape", f"{key} have dtype {array.dtype} and shape {array.shape}, they must be numbers of shape {shape}")
    numbers = array.astype(float)
    if not np.all(np.isfinite(numbers)):
        row = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise ChunkRefused("not_finite", f"row {row} of {key} holds NaN or infinity: the policy's output is broken")
    return numbers
