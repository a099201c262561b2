"""Where the arm may be: small guards that give reasons, and the clipping of targets.

A guard says by how much a configuration is outside its limit. :class:`Guards` asks them all, for many configurations at
once. Being outside at the start is no trap: motion that makes no excess larger is allowed, so that the arm can be
driven back in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vlatools.core.pose import quat_to_matrix
from vlatools.robot import fr3
from vlatools.robot.collision import BodyModel
from vlatools.robot.config import ArmConfig
from vlatools.robot.model import Fr3Model

Vector = NDArray[np.float64]

_EPS = 1e-9
_TABLE_INSET = 0.001  # m: targets stay this far above what the table guard allows
_CLIP_EPS = 1e-5  # a target moved by less is not counted as clipped
LINK_NAMES = (*tuple(f"link{i}" for i in range(8)), "hand")


@dataclass(frozen=True)
class Samples:
    """Configurations to be judged: q and v (N, 7) rad, rad/s, and what follows from q."""

    q: Vector
    v: Vector
    links: Vector  # (N, 9, 4, 4)
    centers: Vector  # (N, S, 3)
    tcp: Vector  # (N, 3)


class Guard(Protocol):
    """One limit."""

    name: str

    def excess(self, samples: Samples) -> Vector:
        """Excess (N, k) over the limit; above 0 is outside."""
        ...

    def explain(self, samples: Samples, row: int) -> str:
        """Value, limit and fix for the offending sample ``row``."""
        ...


class JointGuard:
    """Joint positions stay ``margin`` inside the FR3's limits."""

    name = "joint_limits"

    def __init__(self, margin: float) -> None:
        self.low, self.high = fr3.Q_MIN + margin, fr3.Q_MAX - margin

    def excess(self, samples: Samples) -> Vector:
        """Excess (N, 14) in rad."""
        return np.hstack([self.low - samples.q, samples.q - self.high])

    def explain(self, samples: Samples, row: int) -> str:
        """Names the joint."""
        over = np.maximum(self.low - samples.q[row], samples.q[row] - self.high)
        joint = int(np.argmax(over))
        return (
            f"joint {joint + 1} at {samples.q[row, joint]:.3f} rad, the limits are {self.low[joint]:.3f} to "
            f"{self.high[joint]:.3f}: approach with another orientation or from another configuration"
        )


class VelocityGuard:
    """Joint velocities stay within the configured share of the FR3's, and its position-dependent limits."""

    name = "joint_velocity"

    def __init__(self, limits: Vector) -> None:
        self._limits = limits

    def excess(self, samples: Samples) -> Vector:
        """Excess (N, 7) in rad/s."""
        low, high = fr3.velocity_limits(samples.q)
        return np.maximum(np.maximum(low, -self._limits) - samples.v, samples.v - np.minimum(high, self._limits))

    def explain(self, samples: Samples, row: int) -> str:
        """Names the joint."""
        joint = int(np.argmax(self.excess(samples)[row]))
        return f"joint {joint + 1} would move at {samples.v[row, joint]:.2f} rad/s, too fast at {samples.q[row, joint]:.2f} rad"


class WorkspaceGuard:
    """The TCP stays in a box in fr3_link0."""

    name = "workspace"

    def __init__(self, low: Vector, high: Vector) -> None:
        self.low, self.high = low, high

    def excess(self, samples: Samples) -> Vector:
        """Excess (N, 6) in m."""
        return np.hstack([self.low - samples.tcp, samples.tcp - self.high])

    def explain(self, samples: Samples, row: int) -> str:
        """Names position and box."""
        return (
            f"TCP at {np.round(samples.tcp[row], 3).tolist()} m, the workspace is {self.low.tolist()} to "
            f"{self.high.tolist()}: choose a target inside (limits.workspace_* in robot.yaml)"
        )


class TableGuard:
    """Hand, fingers and links stay above the table."""

    name = "table"

    def __init__(self, body: BodyModel, height: float) -> None:
        self._body, self._height = body, height

    def excess(self, samples: Samples) -> Vector:
        """Excess (N, 2) in m: tool, links."""
        return self._height - np.stack(self._body.lowest(samples.links, samples.centers), axis=1)

    def explain(self, samples: Samples, row: int) -> str:
        """Names the part."""
        tool, body = (part[row] for part in self._body.lowest(samples.links, samples.centers))
        part, height = ("fingers or hand", tool) if tool < body else ("a link of the arm", body)
        return f"{part} at z = {height:.4f} m, the table's limit is {self._height:.4f}: choose a higher target"


class SelfCollisionGuard:
    """The links keep clear of each other."""

    name = "self_collision"

    def __init__(self, body: BodyModel, clearance: float) -> None:
        self._body, self._clearance = body, clearance

    def excess(self, samples: Samples) -> Vector:
        """Excess (N, 1) in m."""
        return (self._clearance - self._body.self_gap(samples.centers))[:, None]

    def explain(self, samples: Samples, row: int) -> str:
        """Names the links."""
        first, second = self._body.closest_pair(samples.centers[row : row + 1])
        return f"{LINK_NAMES[first]} and {LINK_NAMES[second]} would touch: choose another target or go by another way"


class Guards:
    """All limits of the arm on configurations and velocities."""

    def __init__(self, config: ArmConfig) -> None:
        limits = config.limits
        self._model = Fr3Model(config.tcp_z)
        self._body = BodyModel(config.tcp_z)
        self.guards: tuple[Guard, ...] = (
            JointGuard(limits.joint_margin),
            VelocityGuard(config.velocity_limits),
            WorkspaceGuard(np.array(limits.workspace_min), np.array(limits.workspace_max)),
            TableGuard(self._body, limits.table_height + limits.table_clearance),
            SelfCollisionGuard(self._body, limits.self_collision_clearance),
        )

    def samples(self, q: Vector, v: Vector) -> Samples:
        """Prepare ``q``, ``v`` (N, 7) for judging."""
        links = self._model.links(q)
        return Samples(q, v, links, self._body.centers(links), self._model.tcp_of_links(links)[:, :3, 3])

    def violation(self, q: Vector, v: Vector) -> tuple[str, str]:
        """(guard name, explanation) of the first excess in samples 1 .. N-1 that is larger than sample 0's; ("", "") if none.

        Args:
            q, v: (N, 7) rad, rad/s; sample 0 is where the arm is now.
        """
        samples = self.samples(q, v)
        for guard in self.guards:
            excess = guard.excess(samples)
            over = excess[1:] > np.maximum(excess[0], 0.0) + _EPS
            if over.any():
                row = int(np.argmax(over.any(axis=1))) + 1
                return guard.name, guard.explain(samples, row)
        return "", ""


class TargetClipper:
    """Moves targets of the TCP into the workspace and above the table."""

    def __init__(self, config: ArmConfig) -> None:
        limits = config.limits
        self.low = np.array(limits.workspace_min) + limits.inset
        self.high = np.array(limits.workspace_max) - limits.inset
        self.low[2] = limits.workspace_min[2]  # the table bounds z from below, not the inset
        self._table = limits.table_height + limits.table_clearance + _TABLE_INSET
        self._points = BodyModel(config.tcp_z).tcp_points

    def lowest_z(self, quat_xyzw: Vector) -> float:
        """Least z of the TCP with which the tool clears the table in this orientation, m."""
        return float(self._table - (self._points @ quat_to_matrix(quat_xyzw)[2]).min())

    def clip(self, positions: Vector, quats_xyzw: Vector) -> tuple[Vector, NDArray[np.bool_]]:
        """Clipped positions (H, 3) and which rows were clipped (H,), for orientations (H, 4)."""
        out = np.clip(positions, self.low, self.high)
        out[:, 2] = np.maximum(out[:, 2], [self.lowest_z(quat) for quat in quats_xyzw])
        return out, np.abs(out - positions).max(axis=1) > _CLIP_EPS
