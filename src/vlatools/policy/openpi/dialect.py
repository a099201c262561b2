"""What differs between servers: how an observation is put to them, and what their actions mean. And ``tapt``, our own way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ActionSpace, ConfigError, Invocation
from vlatools.policy.openpi.config import PolicyServerConfig
from vlatools.policy.openpi.manifest import ServedManifest
from vlatools.policy.openpi.reply import check_rows, progress_of, rows_of
from vlatools.policy.picture import reduce_frame
from vlatools.policy.ports import Manifest, Observation
from vlatools.policy.state import state_vector


@dataclass(frozen=True)
class Moment:
    """What an inference is about.

    Attributes:
        invocation: the invocation in execution.
        seen: the observation; it has a frame.
        opening: commanded full opening now, m.
        start_s: monotonic time of the invocation's first observation.
        start_state: state (11,) then, see ``STATE_LAYOUT``.
    """

    invocation: Invocation
    seen: Observation
    opening: float
    start_s: float
    start_state: NDArray[np.float64]


class Dialect(Protocol):
    """One flavour of server."""

    @property
    def manifest(self) -> Manifest:
        """What the policy can do; known once the server was reached."""
        ...

    def check(self, metadata: Mapping[str, Any]) -> None:
        """Judge the first frame of a connection. Raises ConfigError when it does not fit, or is not what it was before."""
        ...

    def ask(self, moment: Moment) -> dict[str, Any]:
        """The observation as the server wants it. Raises StaleData, ConfigError."""
        ...

    def understand(self, reply: dict[str, Any], seen: Observation) -> tuple[NDArray[np.float64], float]:
        """Rows (H, 8) in the manifest's action space, and progress (NaN: none is given). Raises ChunkRefused."""
        ...


class TaptDialect:
    """Servers of tool families (``vlatools serve``): family and arguments beside the observation, progress beside the actions."""

    def __init__(self, config: PolicyServerConfig) -> None:
        self._config = config
        self._served: ServedManifest | None = None

    @property
    def manifest(self) -> Manifest:
        """As the server announced it."""
        assert self._served is not None  # connect() comes first
        return self._served.to_manifest()

    def check(self, metadata: Mapping[str, Any]) -> None:
        """The first manifest must fit the stack, and every later one be the same."""
        served = ServedManifest.from_wire(metadata, f"policy server {self._config.url}")
        wanted = self._config.statistics_hash
        if wanted and served.statistics_hash != wanted:
            raise ConfigError(
                f"policy server {self._config.url}: statistics_hash is {served.statistics_hash!r}, policy_server.yaml asks for {wanted!r}: "
                f"serve the checkpoint that belongs to it, or pin the new hash after a check of the actions' range"
            )
        if self._served is not None and (difference := self._served.difference(served)):
            raise ConfigError(f"policy server {self._config.url} came back with another manifest: {difference}; restart the tools node")
        self._served = served

    def ask(self, moment: Moment) -> dict[str, Any]:
        """Small picture, depth, calibration, state, and the invocation."""
        seen, invocation = moment.seen, moment.invocation
        assert seen.frame is not None  # the manifest asks for the camera
        picture = reduce_frame(seen.frame)
        inner = picture.intrinsics
        return {
            "observation/image": picture.color,
            "observation/depth": picture.depth,
            "observation/camera": np.array([inner.fx, inner.fy, inner.cx, inner.cy]),
            "observation/camera_to_base": np.concatenate([seen.camera_to_base.position, seen.camera_to_base.quat_xyzw]),
            "observation/state": state_vector(seen.arm, moment.opening),
            "prompt": invocation.instruction,
            "tapt/family": invocation.family.value,
            "tapt/object": invocation.object,
            "tapt/target": invocation.target,
            "tapt/position": np.full(3, math.nan) if invocation.position is None else np.array(invocation.position),
            "tapt/angle": math.nan if invocation.angle is None else float(invocation.angle),
            "tapt/elapsed_s": seen.stamp_s - moment.start_s,
            "tapt/start_state": moment.start_state,
        }

    def understand(self, reply: dict[str, Any], seen: Observation) -> tuple[NDArray[np.float64], float]:
        """Rows as they are, once they are sane."""
        manifest = self.manifest
        rows = rows_of(reply, manifest.horizon, 8)
        check_rows(rows, ActionSpace.EE_POSE, seen.arm, self._config.reply)
        return rows, progress_of(reply, manifest.horizon) if manifest.reports_progress else math.nan
