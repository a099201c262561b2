"""OpenVLA-OFT's observations and actions: LIBERO's, under other names and with the other sign of the gripper."""

from __future__ import annotations

from vlatools.policy.openpi.config import PolicyServerConfig
from vlatools.policy.openpi.stock import LiberoDialect

_KEYS = ("full_image", "wrist_image", "state", "instruction")


def oft_dialect(config: PolicyServerConfig) -> LiberoDialect:
    """Its gripper action is 0 to 1, 1 open: the server does not turn it into the simulator's -1 to 1, 1 closed."""
    return LiberoDialect(config, _KEYS, lambda action: action < 0.5)
