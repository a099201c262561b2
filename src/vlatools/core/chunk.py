"""An action chunk: what one policy inference asks of the arm."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from vlatools.core.errors import ChunkRefused

MAX_ROWS = 1000
ROW_WIDTH = 8


class ActionSpace(str, Enum):
    """Meaning of a chunk's row. Other spaces (deltas, velocities) are converted by the policy side."""

    EE_POSE = "ee_pose"  # x y z [m] qx qy qz qw, gripper opening [m]; fr3_hand_tcp in fr3_link0
    JOINT_POSITION = "joint_position"  # q1..q7 [rad], gripper opening [m]


@dataclass(frozen=True)
class ActionChunk:
    """Targets for the arm: row i is to be reached at ``stamp_s + (i + 1) * dt``.

    Attributes:
        invocation_id: invocation that it belongs to.
        index: 0, 1, 2 ... within the invocation.
        space: meaning of a row.
        stamp_s: monotonic time of the observation that the chunk starts from, seconds.
        dt: seconds between rows.
        actions: float64 (H, 8); the last column is the full gripper opening in metres, 0 closed to 0.08 open.

    Raises:
        ChunkRefused: wrong shape, NaN or infinity, dt not positive, quaternion not unit length.
    """

    invocation_id: str
    index: int
    space: ActionSpace
    stamp_s: float
    dt: float
    actions: NDArray[np.float64]

    def __post_init__(self) -> None:
        actions = np.array(self.actions, dtype=float)
        if actions.ndim != 2 or actions.shape[1] != ROW_WIDTH or not 1 <= actions.shape[0] <= MAX_ROWS:
            raise ChunkRefused(
                "wrong_shape",
                f"chunk has shape {actions.shape}, it must be (1 to {MAX_ROWS}, {ROW_WIDTH}): check the policy's action space",
            )
        if not np.all(np.isfinite(actions)):
            row = int(np.argwhere(~np.isfinite(actions))[0][0])
            raise ChunkRefused("not_finite", f"row {row} of the chunk holds NaN or infinity: the policy's output is broken")
        if not (np.isfinite(self.dt) and self.dt > 0):
            raise ChunkRefused("bad_dt", f"dt is {self.dt} s, it must be finite and above 0")
        if not np.isfinite(self.stamp_s):
            raise ChunkRefused("bad_stamp", f"stamp is {self.stamp_s}, it must be a finite monotonic time in seconds")
        if self.space is ActionSpace.EE_POSE:
            norms = np.linalg.norm(actions[:, 3:7], axis=1)
            if np.any(np.abs(norms - 1) > 1e-2):
                row = int(np.argmax(np.abs(norms - 1)))
                raise ChunkRefused(
                    "bad_quaternion",
                    f"row {row}: quaternion norm {norms[row]:.3f}, the limit is 1 +- 0.01: order is x y z w, normalise it",
                )
            actions[:, 3:7] /= norms[:, None]
        actions.setflags(write=False)
        object.__setattr__(self, "actions", actions)

    @property
    def horizon(self) -> int:
        """Number of rows."""
        return int(self.actions.shape[0])

    @property
    def end_s(self) -> float:
        """Monotonic time at which the last row is to be reached."""
        return self.stamp_s + self.horizon * self.dt
