"""The robot state packet of Franka's protocol, kept as one buffer in which only what changes is written."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_FIELDS: tuple[tuple[str, int], ...] = (
    ("O_T_EE", 16), ("O_T_EE_d", 16), ("F_T_EE", 16), ("EE_T_K", 16), ("F_T_NE", 16), ("NE_T_EE", 16),
    ("m_ee", 1), ("I_ee", 9), ("F_x_Cee", 3), ("m_load", 1), ("I_load", 9), ("F_x_Cload", 3),
    ("elbow", 2), ("elbow_d", 2), ("tau_J", 7), ("tau_J_d", 7), ("dtau_J", 7),
    ("q", 7), ("q_d", 7), ("dq", 7), ("dq_d", 7), ("ddq_d", 7),
    ("joint_contact", 7), ("cartesian_contact", 6), ("joint_collision", 7), ("cartesian_collision", 6),
    ("tau_ext_hat_filtered", 7), ("O_F_ext_hat_K", 6), ("K_F_ext_hat_K", 6), ("O_dP_EE_d", 6), ("O_ddP_O", 3),
    ("elbow_c", 2), ("delbow_c", 2), ("ddelbow_c", 2), ("O_T_EE_c", 16), ("O_dP_EE_c", 6), ("O_ddP_EE_c", 6),
    ("theta", 7), ("dtheta", 7), ("accelerometer_top", 18), ("accelerometer_bottom", 18),
)  # fmt: skip
_FLOATS = sum(count for _, count in _FIELDS)
_TAIL = struct.Struct("<BB41B41BBf")

# Bits of the error field that the simulation sets; the order is libfranka's.
ERRORS: dict[str, int] = {
    "joint_position_limits_violation": 0,
    "joint_velocity_violation": 3,
    "joint_reflex": 6,
    "cartesian_reflex": 7,
    "joint_motion_generator_velocity_limits_violation": 13,
    "communication_constraints_violation": 25,
}


def column_major(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Homogeneous transform (4, 4) as the protocol's 16 numbers."""
    return matrix.T.ravel()


class StatePacket:
    """One state; fields are float32 views to write into, e.g. ``packet["q"][:] = q``.

    Attributes:
        generator, controller, mode: modes, the numbers of franky-sim's enums.
        errors, reasons: active errors, and those of the last reflex.
        success_rate: share of control commands that came in time.
    """

    def __init__(self) -> None:
        self._buffer = np.zeros(_FLOATS, "<f4")
        self._views: dict[str, NDArray[np.float32]] = {}
        start = 0
        for name, count in _FIELDS:
            self._views[name] = self._buffer[start : start + count]
            start += count
        for name in ("O_T_EE", "O_T_EE_d", "F_T_EE", "EE_T_K", "F_T_NE", "NE_T_EE", "O_T_EE_c"):
            self._views[name][:] = np.eye(4).ravel()
        self.generator, self.controller, self.mode = 0, 3, 1
        self.success_rate = 1.0
        self.set_errors(())

    def __getitem__(self, field: str) -> NDArray[np.float32]:
        return self._views[field]

    def set_errors(self, names: Iterable[str]) -> None:
        """Active errors by name."""
        bits = [0] * 41
        for name in names:
            bits[ERRORS[name]] = 1
        self._bits = tuple(bits)

    def pack(self) -> bytes:
        """Bytes as sent over UDP, without the message id."""
        tail = _TAIL.pack(self.generator, self.controller, *self._bits, *self._bits, self.mode, self.success_rate)
        return self._buffer.tobytes() + tail
