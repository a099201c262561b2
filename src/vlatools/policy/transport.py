"""The port between a remote policy and the wire: one request, one reply, never a late one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from vlatools.core import VlatoolsError


class PolicyServerError(VlatoolsError):
    """A policy server is not there, broke the connection, or answered with an error."""


class Transport(Protocol):
    """Requests to one policy server, one at a time."""

    def open(self, timeout_s: float) -> None:
        """Make sure that the server is there and announces what fits. Raises PolicyServerError, ConfigError."""
        ...

    def request(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        """One inference. Raises StaleData when no reply comes in time, PolicyServerError, ConfigError."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...
