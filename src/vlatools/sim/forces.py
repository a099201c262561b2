"""What the robot feels: external torques and wrench from its contacts, and the reflex that they trip."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlatools.robot import fr3
from vlatools.sim.world import World

Vector = NDArray[np.float64]

_FILTER_S = 0.02  # the FR3 filters its estimates; a simulated impact is a spike of one step


@dataclass
class Thresholds:
    """Collision behaviour: torques (7,) N m and forces (6,) N and N m that trip the reflex."""

    torque: Vector
    force: Vector


class ForceSense:
    """Filtered external joint torques and wrench at the tool, with the sign of what the world does to the robot.

    Attributes:
        tau: (7,) N m.
        wrench: (6,) N and N m at fr3_hand_tcp, axes of fr3_link0.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.clear()

    def clear(self) -> None:
        """Forget what was felt."""
        self.tau = np.zeros(fr3.DOF)
        self.wrench = np.zeros(6)
        self._quiet = True

    def update(self, ticks: int) -> None:
        """Take in the contacts of the last step; ``ticks`` ms have passed since the last call."""
        tau, wrench = self._contacts()
        if tau is None or wrench is None:
            if self._quiet:
                return
            tau, wrench = np.zeros(fr3.DOF), np.zeros(6)
        share = 1.0 - math.exp(-ticks * 0.001 / _FILTER_S)
        self.tau = self.tau + share * (tau - self.tau)
        self.wrench = self.wrench + share * (wrench - self.wrench)
        self._quiet = not tau.any() and float(np.abs(self.wrench).max()) < 1e-3
        if self._quiet:
            self.clear()

    def tripped(self, limits: Thresholds) -> str:
        """Name of the reflex that the present estimates trip, "" for none."""
        if self._quiet:
            return ""
        if np.any(np.abs(self.tau) > limits.torque):
            return "joint_reflex"
        return "cartesian_reflex" if np.any(np.abs(self.wrench) > limits.force) else ""

    def _contacts(self) -> tuple[Vector, Vector] | tuple[None, None]:
        world, data = self._world, self._world.data
        if data.ncon == 0:
            return None, None
        depth = world.robot_bodies[world.model.geom_bodyid[data.contact.geom]]
        contacts = data.contact
        start = contacts.efc_address
        touching = np.flatnonzero((depth >= 0).any(axis=1) & (start >= 0))
        if touching.size == 0:
            return None, None
        frames = contacts.frame[touching].reshape(-1, 3, 3)
        rows, count = start[touching], contacts.dim[touching]
        # Elliptic cones keep a contact's force in its own frame: normal, two tangents, then torsion.
        forces = np.einsum("ni,nij->nj", data.efc_force[rows[:, None] + np.arange(3)], frames)
        twists = np.where(count > 3, data.efc_force[np.minimum(rows + 3, data.nefc - 1)], 0.0)[:, None] * frames[:, 0]
        # A frame's first axis points from geom 0 to geom 1, and the force is the one on geom 1.
        second = depth[touching, 1] >= 0
        sign = np.where(second, 1.0, -1.0)[:, None]
        forces, twists = sign * forces, sign * twists
        moved_by = np.where(second, depth[touching, 1], depth[touching, 0])
        tool = world.ee_matrix()[:3, 3]
        away = contacts.pos[touching] - tool
        tau = np.zeros(fr3.DOF)
        for joints in set(moved_by.tolist()):
            of = moved_by == joints
            force, moment = forces[of].sum(axis=0), _moment(away[of], forces[of]) + twists[of].sum(axis=0)
            axes, levers = data.xaxis[:joints], tool - data.xanchor[:joints]
            tau[:joints] += axes @ moment + np.einsum("ij,ij->i", axes, _crosses(levers, force))
        wrench = np.concatenate([forces.sum(axis=0), _moment(away, forces) + twists.sum(axis=0)])
        return tau, wrench


def _moment(points: Vector, forces: Vector) -> Vector:
    """Sum (3,) of the cross products of two (N, 3)."""
    s = points.T @ forces
    return np.array([s[1, 2] - s[2, 1], s[2, 0] - s[0, 2], s[0, 1] - s[1, 0]])


def _crosses(points: Vector, force: Vector) -> Vector:
    """Cross products (N, 3) of points (N, 3) with one force (3,); NumPy's own is ten times slower here."""
    x, y, z = force
    return points @ np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
