"""What a simulated FR3 reports of itself: the fields of its state packet, from the world and from what it aims at."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlatools.core.pose import quat_to_matrix
from vlatools.robot import fr3
from vlatools.robot.model import Fr3Model
from vlatools.sim.forces import ForceSense
from vlatools.sim.franky_state import StatePacket, column_major
from vlatools.sim.world import World

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Aim:
    """Reference of the robot's own position control: (7,) rad, rad/s, rad/s^2."""

    q: Vector
    dq: Vector
    ddq: Vector


class RobotReport(StatePacket):
    """The state packet of one robot.

    Attributes:
        ee: end effector (4, 4) in the frame of the hand's TCP, as the client has set it (NE_T_EE).
    """

    def __init__(self, world: World, model: Fr3Model) -> None:
        super().__init__()
        self._world = world
        self._model = model
        self["F_T_NE"][:] = column_major(_flange_to_tcp())
        self["m_ee"][:] = 0.73
        self["I_ee"][:] = np.diag([0.001, 0.0025, 0.0017]).ravel()
        self["F_x_Cee"][:] = (-0.01, 0.0, 0.03)
        self.set_ee(np.eye(4))

    def set_ee(self, ee: Vector) -> None:
        """The client has set the end effector (4, 4)."""
        self.ee = ee
        self["NE_T_EE"][:] = column_major(ee)
        self["F_T_EE"][:] = column_major(_flange_to_tcp() @ ee)

    def set_load(self, mass: float, center: Vector, inertia: Vector) -> None:
        """The client has set the load: kg, (3,) m, (9,) kg m^2."""
        self["m_load"][:], self["F_x_Cload"][:], self["I_load"][:] = mass, center, inertia

    def write(self, aim: Aim | None, tau_d: Vector, senses: ForceSense) -> None:
        """Write the present state; ``aim`` is None while the client commands torques ``tau_d``."""
        world = self._world
        q, dq = world.data.qpos[world.q_slice], world.data.qvel[world.v_slice]
        ee = world.ee_matrix() @ self.ee
        pose = column_major(ee)
        self["q"][:], self["dq"][:] = q, dq
        self["theta"][:], self["dtheta"][:] = q, dq
        self["O_T_EE"][:] = pose
        if aim is None:
            q_d = q
            self["q_d"][:], self["dq_d"][:], self["ddq_d"][:] = q, dq, 0.0
            self["tau_J_d"][:] = tau_d
        else:
            q_d = aim.q
            self["q_d"][:], self["dq_d"][:], self["ddq_d"][:] = aim.q, aim.dq, aim.ddq
            self["tau_J_d"][:] = 0.0
            pose = column_major(self._model.matrix(aim.q) @ self.ee)
            self["O_dP_EE_d"][:] = self["O_dP_EE_c"][:] = self._model.jacobian(aim.q) @ aim.dq
        self["O_T_EE_d"][:] = self["O_T_EE_c"][:] = pose
        self["elbow"][:] = (q[2], math.copysign(1.0, q[3]))
        self["elbow_d"][:] = self["elbow_c"][:] = (q_d[2], math.copysign(1.0, q_d[3]))
        self["tau_J"][:] = world.joint_torques()
        self["tau_ext_hat_filtered"][:] = senses.tau
        wrench = senses.wrench
        self["O_F_ext_hat_K"][:] = wrench
        self["K_F_ext_hat_K"][:3], self["K_F_ext_hat_K"][3:] = wrench[:3] @ ee[:3, :3], wrench[3:] @ ee[:3, :3]


def _flange_to_tcp() -> Vector:
    out = np.eye(4)
    half = fr3.HAND_YAW / 2
    out[:3, :3] = quat_to_matrix((0.0, 0.0, math.sin(half), math.cos(half)))
    out[2, 3] = fr3.HAND_TCP_Z
    return out
