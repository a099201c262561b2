"""A policy that computes on another machine: the Policy port over a transport and a dialect."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from vlatools.core import ConfigError, Invocation, Rejected, StaleData
from vlatools.policy.openpi.client import OpenpiClient
from vlatools.policy.openpi.config import Flavour, PolicyServerConfig
from vlatools.policy.openpi.dialect import Dialect, Moment, TaptDialect
from vlatools.policy.openpi.stock import DroidDialect, LiberoDialect
from vlatools.policy.openvla import OftClient, oft_dialect
from vlatools.policy.ports import Manifest, Observation, PolicyOutput
from vlatools.policy.state import CommandedOpening, state_vector
from vlatools.policy.transport import PolicyServerError, Transport

_DIALECTS: dict[Flavour, Callable[[PolicyServerConfig], Dialect]] = {
    Flavour.TAPT: TaptDialect,
    Flavour.OPENPI_DROID: DroidDialect,
    Flavour.OPENPI_LIBERO: LiberoDialect,
}


def connect(config: PolicyServerConfig) -> RemotePolicy:
    """Reach the server, check what it announces, and make a policy of it.

    Raises:
        ConfigError: the server is not there, or does not fit; names the entry, the limit and the fix.
    """
    dialect: Dialect
    transport: Transport
    if config.flavour is Flavour.OPENVLA_OFT:
        dialect = oft_dialect(config)
        transport = OftClient(config.url, config.read_timeout_s)
    else:
        dialect = _DIALECTS[config.flavour](config)
        transport = OpenpiClient(config.url, config.read_timeout_s, dialect.check)
    try:
        transport.open(config.start_timeout_s)
    except PolicyServerError as error:
        raise ConfigError(str(error)) from error
    return RemotePolicy(transport, dialect, config.connect_timeout_s)


class RemotePolicy:
    """Policy port over a connection. Made by ``connect``.

    Args:
        transport: open connection to the server.
        dialect: how the server is asked and understood.
        connect_timeout_s: longest wait for a new connection at the begin of an invocation.
    """

    def __init__(self, transport: Transport, dialect: Dialect, connect_timeout_s: float) -> None:
        self._transport = transport
        self._dialect = dialect
        self._connect_timeout_s = connect_timeout_s

    @property
    def manifest(self) -> Manifest:
        """What the server announced, or the configuration says of it."""
        return self._dialect.manifest

    def begin(self, invocation: Invocation, observation: Observation) -> RemoteSession:
        """Start an invocation, over a new connection if the one before broke.

        Raises:
            Rejected: the family is not served, the server is not there, or it came back with another manifest.
            StaleData: the gripper's opening is unknown.
        """
        if invocation.family not in self.manifest.families:
            raise Rejected("family_not_served", f"{self.manifest.name} serves {[str(f) for f in self.manifest.families]}: use one of them")
        try:
            self._transport.open(self._connect_timeout_s)
        except PolicyServerError as error:
            raise Rejected("policy_unreachable", str(error)) from error
        except ConfigError as error:
            raise Rejected("manifest_changed", str(error)) from error
        return RemoteSession(self._transport, self._dialect, invocation, observation)

    def close(self) -> None:
        """Let go of the server."""
        self._transport.close()


class RemoteSession:
    """One invocation; the server keeps nothing of it, so that it may come back in the middle."""

    def __init__(self, transport: Transport, dialect: Dialect, invocation: Invocation, first: Observation) -> None:
        self._transport, self._dialect, self._invocation = transport, dialect, invocation
        self._opening = CommandedOpening(first.arm)
        self._start_s = first.stamp_s
        self._start_state = state_vector(first.arm, self._opening.at(first.stamp_s))

    def infer(self, observation: Observation) -> PolicyOutput:
        """Ask the server.

        Raises:
            StaleData: no reply in time, or an observation that lacks something.
            PolicyServerError: the server broke down.
            ChunkRefused: its reply is not sane; nothing of it goes to the arm.
        """
        if observation.frame is None:
            raise StaleData("camera", float("inf"), 0.0, "a remote policy needs a frame for every inference")
        opening = self._opening.at(observation.stamp_s)
        question = self._dialect.ask(Moment(self._invocation, observation, opening, self._start_s, self._start_state))
        begin = time.monotonic()
        reply = self._transport.request(question)
        waited_ms = 1e3 * (time.monotonic() - begin)
        rows, progress = self._dialect.understand(reply, observation)
        manifest = self._dialect.manifest
        self._opening.sent(observation.stamp_s, manifest.dt, rows[:, 7])
        return PolicyOutput(rows, progress, manifest.name, measurements={"round_trip_ms": waited_ms, **_timing(reply)})

    def needs_frame(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """The connection stays for the next invocation."""


def _timing(reply: dict[str, Any]) -> dict[str, float]:
    """The server's own time for the inference, where it says so."""
    timing = reply.get("server_timing")
    value = timing.get("infer_ms") if isinstance(timing, dict) else None
    return {"infer_ms": float(value)} if isinstance(value, int | float | np.number) else {}
