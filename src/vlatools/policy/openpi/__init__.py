"""Remote policies over openpi's websocket protocol: a server for any policy, a client, and what stock servers speak."""

from vlatools.policy.openpi.config import Flavour, PolicyServerConfig, ReplyLimits, StockConfig
from vlatools.policy.openpi.manifest import ServedManifest
from vlatools.policy.openpi.server import PolicyServer, ServedPolicy

__all__ = ["Flavour", "PolicyServer", "PolicyServerConfig", "ReplyLimits", "ServedManifest", "ServedPolicy", "StockConfig"]
