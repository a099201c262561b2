"""Gaps of the arm to itself and to the table, for many configurations at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlatools.robot import fr3

Vector = NDArray[np.float64]

_FIRST_TABLE_LINK = 4  # links 0 to 3 cannot reach a table that the base stands on


class BodyModel:
    """The sphere model of the FR3 and the corner points of its tool.

    Args:
        tcp_z: TCP beyond the hand's frame, m; the tool points are given in the frame of ``fr3_hand_tcp``.
    """

    def __init__(self, tcp_z: float = fr3.HAND_TCP_Z) -> None:
        self._link = np.array([sphere.link for sphere in fr3.SPHERES])
        self._center = np.ones((len(fr3.SPHERES), 4))
        self._center[:, :3] = [sphere.center for sphere in fr3.SPHERES]
        self._radius = np.array([sphere.radius for sphere in fr3.SPHERES])
        pairs = [
            (i, j)
            for i, first in enumerate(fr3.SPHERES)
            for j, second in enumerate(fr3.SPHERES)
            if (first.link, second.link) in fr3.LINK_PAIRS
        ]
        self._first, self._second = np.array(pairs).T
        self._reach = self._radius[self._first] + self._radius[self._second]
        # The hand's and fingers' spheres are coarse next to a table; their corner points stand in for them there.
        self._over_table = np.flatnonzero((self._link >= _FIRST_TABLE_LINK) & (self._link != fr3.HAND))
        points = np.array(fr3.TOOL_POINTS)
        self.tool_points = points  # (P, 3) in the frame of fr3_hand_tcp
        to_hand, to_tcp = np.array([0.0, 0.0, fr3.HAND_TCP_Z]), np.array([0.0, 0.0, fr3.HAND_TCP_Z - tcp_z])
        self._hand_points = np.hstack([points + to_hand, np.ones((len(points), 1))])
        self.tcp_points = points + to_tcp  # (P, 3) in the frame of the configured TCP

    def centers(self, links: Vector) -> Vector:
        """Sphere centres (N, S, 3) in fr3_link0 from link transforms (N, 9, 4, 4)."""
        return np.asarray((links[:, self._link, :3] @ self._center[:, :, None])[..., 0])

    def self_gap(self, centers: Vector) -> Vector:
        """Least gap (N,) m between links that can meet; negative when the spheres overlap."""
        delta = centers[:, self._first] - centers[:, self._second]
        return np.asarray((np.sqrt(np.einsum("nps,nps->np", delta, delta)) - self._reach).min(axis=1))

    def closest_pair(self, centers: Vector) -> tuple[int, int]:
        """Links (a, b) of the least gap in configuration 0; 8 is the hand."""
        delta = centers[0, self._first] - centers[0, self._second]
        index = int(np.argmin(np.linalg.norm(delta, axis=1) - self._reach))
        return int(self._link[self._first[index]]), int(self._link[self._second[index]])

    def lowest(self, links: Vector, centers: Vector) -> tuple[Vector, Vector]:
        """Heights (N,) m of the lowest tool point and of the lowest link above the base plane."""
        tool = (links[:, fr3.HAND, 2] @ self._hand_points.T).min(axis=1)
        body = (centers[:, self._over_table, 2] - self._radius[self._over_table]).min(axis=1)
        return np.asarray(tool), np.asarray(body)
