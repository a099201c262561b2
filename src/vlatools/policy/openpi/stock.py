"""Stock servers, which know no families and report no progress: DROID's and LIBERO's observations and actions.

Their actions are relative. A chunk is anchored once, at the state of its own observation, and then summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vlatools.core import ActionSpace
from vlatools.core.pose import quat_multiply
from vlatools.policy.openpi.config import PolicyServerConfig
from vlatools.policy.openpi.dialect import Moment
from vlatools.policy.openpi.reply import check_rows, rows_of
from vlatools.policy.ports import Manifest, Observation
from vlatools.robot.ports import ArmState

SIDE = 224  # pixels of the pictures that these policies were trained with
_OPEN = 0.08  # m
_DROID_STATE = ("q1", "q2", "q3", "q4", "q5", "q6", "q7", "gripper")
_LIBERO_STATE = ("x", "y", "z", "rx", "ry", "rz", "left_finger", "right_finger")


class _Stock:
    """What both have in common: the manifest comes from the configuration, and nothing is announced that could be checked."""

    _space: ActionSpace
    _state: tuple[str, ...]

    def __init__(self, config: PolicyServerConfig) -> None:
        self._reply, self._stock = config.reply, config.stock
        self.manifest = Manifest(
            name=config.stock.name,
            version="stock",
            families=config.stock.families,
            action_space=self._space,
            dt=config.stock.dt,
            horizon=config.stock.horizon,
            rate_hz=config.stock.rate_hz,
            cameras=("front",),
            state_layout=self._state,
            reports_progress=False,
            unnormalized_by="server",
        )

    def check(self, metadata: Mapping[str, Any]) -> None:
        """A stock server announces nothing that could be checked."""


class DroidDialect(_Stock):
    """openpi's DROID policies: joint velocities, gripper 1 closed."""

    _space = ActionSpace.JOINT_POSITION
    _state = _DROID_STATE

    def ask(self, moment: Moment) -> dict[str, Any]:
        """The front camera is the exterior one; there is no wrist camera, its picture is black."""
        arm = moment.seen.arm
        return {
            "observation/exterior_image_1_left": _picture(moment.seen),
            "observation/wrist_image_left": np.zeros((SIDE, SIDE, 3), np.uint8),
            "observation/joint_position": np.array(arm.q),
            "observation/gripper_position": np.array([min(1.0, max(0.0, 1.0 - arm.gripper_width / _OPEN))]),
            "prompt": moment.invocation.instruction,
        }

    def understand(self, reply: dict[str, Any], seen: Observation) -> tuple[NDArray[np.float64], float]:
        """Velocities, in shares of a joint's largest step, to joint targets. A row that asks for more is slowed as a whole, as by DROID."""
        actions = rows_of(reply, self.manifest.horizon, 8)
        velocity = actions[:, :7] / np.maximum(1.0, np.abs(actions[:, :7]).max(axis=1, keepdims=True))
        joints = seen.arm.q + np.cumsum(self._stock.joint_step * velocity, axis=0)
        rows = np.column_stack([joints, np.where(actions[:, 7] > 0.5, 0.0, _OPEN)])
        check_rows(rows, self.manifest.action_space, seen.arm, self._reply)
        return rows, math.nan


class LiberoDialect(_Stock):
    """Policies with LIBERO's interface: pose deltas along the base's axes, in shares of the largest step.

    Args:
        config: settings.
        keys: names of picture, wrist picture, state and instruction on the wire.
        closes: whether a gripper action (H,) asks to close.
    """

    _space = ActionSpace.EE_POSE
    _state = _LIBERO_STATE

    def __init__(
        self,
        config: PolicyServerConfig,
        keys: tuple[str, str, str, str] = ("observation/image", "observation/wrist_image", "observation/state", "prompt"),
        closes: Callable[[NDArray[np.float64]], NDArray[np.bool_]] = lambda action: action > 0.0,
    ) -> None:
        super().__init__(config)
        self._keys, self._closes = keys, closes

    def ask(self, moment: Moment) -> dict[str, Any]:
        """Position, rotation vector and both fingers; there is no wrist camera, its picture is black."""
        values = (
            _picture(moment.seen),
            np.zeros((SIDE, SIDE, 3), np.uint8),
            libero_state(moment.seen.arm, np.array(self._stock.base_in_world)),
            moment.invocation.instruction,
        )
        return dict(zip(self._keys, values, strict=True))

    def understand(self, reply: dict[str, Any], seen: Observation) -> tuple[NDArray[np.float64], float]:
        """Deltas, summed up from the measured pose, to poses."""
        actions = rows_of(reply, self.manifest.horizon, 7)
        share = np.clip(actions[:, :6], -1.0, 1.0)
        rows = np.empty((len(actions), 8))
        rows[:, :3] = seen.arm.ee.position + np.cumsum(self._stock.position_step * share[:, :3], axis=0)
        quat = seen.arm.ee.quat_xyzw
        for row, turn in enumerate(self._stock.rotation_step * share[:, 3:6]):
            quat = quat_multiply(_quat_of(turn), quat)
            rows[row, 3:7] = quat
        rows[:, 7] = np.where(self._closes(actions[:, 6]), 0.0, _OPEN)
        check_rows(rows, self.manifest.action_space, seen.arm, self._reply)
        return rows, math.nan


def libero_state(arm: ArmState, base_in_world: NDArray[np.float64]) -> NDArray[np.float64]:
    """Position (3,) m, rotation vector (3,) rad and finger positions (2,) m, the right one negative.

    A hand that points down turns by about pi. There the rotation vector of LIBERO's data keeps its x positive, so it may be longer than pi.
    """
    quat = arm.ee.quat_xyzw if arm.ee.quat_xyzw[0] >= 0 else -arm.ee.quat_xyzw
    length = float(np.linalg.norm(quat[:3]))
    angle = 2.0 * math.atan2(length, float(quat[3]))
    vector = np.zeros(3) if length < 1e-9 else quat[:3] * (angle / length)
    return np.concatenate([arm.ee.position + base_in_world, vector, [arm.gripper_width / 2, -arm.gripper_width / 2]])


def resize_with_pad(color: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """A picture (H, W, 3) scaled into a square of ``side`` pixels, black above and below or left and right."""
    height, width = color.shape[:2]
    if (height, width) == (side, side):
        return color
    scale = max(height, width) / side
    inner_height, inner_width = int(height / scale), int(width / scale)
    out = np.zeros((side, side, 3), np.uint8)
    top, left = (side - inner_height) // 2, (side - inner_width) // 2
    scaled = Image.fromarray(color).resize((inner_width, inner_height), Image.Resampling.BILINEAR)
    out[top : top + inner_height, left : left + inner_width] = np.asarray(scaled)
    return out


def _picture(seen: Observation) -> NDArray[np.uint8]:
    assert seen.frame is not None  # the manifest asks for the camera
    return resize_with_pad(seen.frame.color, SIDE)


def _quat_of(turn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quaternion xyzw of a rotation vector (3,)."""
    half = 0.5 * float(np.linalg.norm(turn))
    return np.array([*(0.5 * np.sinc(half / math.pi) * turn), math.cos(half)])
