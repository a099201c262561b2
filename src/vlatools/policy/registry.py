"""Policies by name, and the check of what a policy announces against what the stack offers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from vlatools.config import find_config, load
from vlatools.core import ActionSpace, ConfigError
from vlatools.core.chunk import MAX_ROWS
from vlatools.policy.analytic import AnalyticConfig, AnalyticPolicy
from vlatools.policy.analytic.world import SceneFinder
from vlatools.policy.openpi.config import PolicyServerConfig
from vlatools.policy.openpi.remote import connect
from vlatools.policy.ports import Manifest, Policy

_MAX_RATE_HZ = 25.0  # the executor looks every 40 ms


@dataclass(frozen=True)
class PolicyParts:
    """What policies may be built from; each takes what it needs.

    Attributes:
        finder: perception.
        analytic: settings of the analytic policy.
        server: the server behind the remote policy; None for what ``config/policy_server.yaml`` says.
    """

    finder: SceneFinder
    analytic: AnalyticConfig = field(default_factory=AnalyticConfig)
    server: PolicyServerConfig | None = None


def _remote(parts: PolicyParts) -> Policy:
    return connect(parts.server or load(PolicyServerConfig, find_config("policy_server.yaml")))


_MAKERS: dict[str, Callable[[PolicyParts], Policy]] = {
    "analytic": lambda parts: AnalyticPolicy(parts.finder, parts.analytic),
    "remote": _remote,
}


def policy_names() -> tuple[str, ...]:
    """Names that ``make_policy`` knows."""
    return tuple(_MAKERS)


def make_policy(name: str, parts: PolicyParts, cameras: tuple[str, ...]) -> Policy:
    """Make a policy and check its manifest.

    Args:
        name: one of ``policy_names()``.
        parts: what it is built from.
        cameras: names of the cameras that the stack has.

    Raises:
        ConfigError: the name is unknown, or the manifest does not fit the stack.
    """
    maker = _MAKERS.get(name)
    if maker is None:
        raise ConfigError(f"policy is {name!r}, known are {', '.join(policy_names())}: choose one of them")
    policy = maker(parts)
    check_manifest(policy.manifest, cameras)
    return policy


def check_manifest(manifest: Manifest, cameras: tuple[str, ...]) -> None:
    """Refuse a policy that does not fit this stack.

    Raises:
        ConfigError: names the first entry that does not fit, the limit and the fix.
    """
    who = f"policy {manifest.name!r} (version {manifest.version})"
    if manifest.action_space not in tuple(ActionSpace):
        known = ", ".join(space.value for space in ActionSpace)
        raise ConfigError(f"{who}: action space {manifest.action_space!r} is none of {known}: convert it on the policy's side")
    if not manifest.families or len(set(manifest.families)) != len(manifest.families):
        raise ConfigError(f"{who}: families {[str(f) for f in manifest.families]} must be at least one, each once")
    if not (math.isfinite(manifest.dt) and 0.005 <= manifest.dt <= 1.0):
        raise ConfigError(f"{who}: dt is {manifest.dt} s, the limits are 0.005 to 1: state the time between two rows")
    if not 1 <= manifest.horizon <= MAX_ROWS:
        raise ConfigError(f"{who}: horizon is {manifest.horizon} rows, the limits are 1 to {MAX_ROWS}")
    if not (math.isfinite(manifest.rate_hz) and 0 < manifest.rate_hz <= _MAX_RATE_HZ):
        raise ConfigError(f"{who}: rate is {manifest.rate_hz} Hz, it must be above 0 and at most {_MAX_RATE_HZ:g}: lower it")
    if manifest.horizon * manifest.dt < 1.0 / manifest.rate_hz:
        raise ConfigError(
            f"{who}: a chunk lasts {manifest.horizon * manifest.dt:.2f} s but the next comes after {1 / manifest.rate_hz:.2f} s: "
            f"the arm would stop in between; raise horizon or rate"
        )
    missing = [camera for camera in manifest.cameras if camera not in cameras]
    if missing:
        raise ConfigError(f"{who}: needs cameras {missing}, the stack has {list(cameras)}: start them or choose another policy")
    if manifest.unnormalized_by not in ("policy", "server", "client"):
        raise ConfigError(
            f"{who}: unnormalized_by is {manifest.unnormalized_by!r}, it must say who un-normalises: policy, server or client"
        )
