"""OpenVLA-OFT servers: ``POST /act`` with arrays in JSON."""

from vlatools.policy.openvla.client import OftClient
from vlatools.policy.openvla.dialect import oft_dialect

__all__ = ["OftClient", "oft_dialect"]
