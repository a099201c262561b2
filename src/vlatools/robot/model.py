"""Kinematics of the FR3: forward, Jacobian and inverse by pinocchio for one configuration, forward by NumPy for many.

The model is built from :mod:`vlatools.robot.fr3`, so that no description file is needed. An instance keeps scratch
memory: give each thread its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from vlatools.core import Pose
from vlatools.core.pose import matrix_to_quat
from vlatools.robot import fr3

Vector = NDArray[np.float64]

_DAMPING = 1e-4  # squared damping of the pseudo-inverse far from singularities
_SINGULAR = 0.03  # manipulability below which the damping grows
_MAX_STEP = 0.35  # rad per iteration, keeps the linearisation honest
_NULL_FADE = 0.7  # the pull towards the posture fades per iteration, so that the solution converges


def _placement(roll: float, xyz: tuple[float, float, float]) -> Vector:
    out = np.eye(4)
    out[:3, :3] = pin.rpy.rpyToMatrix(roll, 0.0, 0.0)
    out[:3, 3] = xyz
    return out


@dataclass(frozen=True)
class IkResult:
    """A solution of the inverse kinematics, within the joint limits in any case.

    Attributes:
        q: joints (7,) rad, the nearest found.
        ok: both errors are within the tolerances that were asked for.
        position_error: what is left, m.
        orientation_error: what is left, rad.
    """

    q: Vector
    ok: bool
    position_error: float
    orientation_error: float


class Fr3Model:
    """FR3 with Franka Hand; poses are of ``fr3_hand_tcp`` in ``fr3_link0``.

    Args:
        tcp_z: TCP beyond the hand's own frame, m. 0.1034 for the Franka Hand, 0 for the hand's frame itself.
        joint_margin: solutions keep this far from the joint limits, rad.
    """

    def __init__(self, tcp_z: float = fr3.HAND_TCP_Z, joint_margin: float = 0.0) -> None:
        self.q_min = fr3.Q_MIN + joint_margin
        self.q_max = fr3.Q_MAX - joint_margin
        tool = _placement(0.0, (0.0, 0.0, fr3.FLANGE_Z)) @ pin.SE3(
            pin.rpy.rpyToMatrix(0.0, 0.0, fr3.HAND_YAW), np.zeros(3)
        )
        self._hand_in_link7 = tool
        self._tcp_in_link7 = tool @ _placement(0.0, (0.0, 0.0, tcp_z))
        self._model = pin.Model()
        joint = 0
        for index, (roll, xyz) in enumerate(fr3.JOINT_PLACEMENTS):
            placement = pin.SE3(_placement(roll, xyz))
            joint = self._model.addJoint(joint, pin.JointModelRZ(), placement, f"fr3_joint{index + 1}")
        self._tcp = self._model.addFrame(
            pin.Frame("fr3_hand_tcp", joint, 0, pin.SE3(self._tcp_in_link7), pin.FrameType.OP_FRAME)
        )
        self._data = self._model.createData()
        # Transform of joint i as constant + cos(q) * A + sin(q) * B, for many configurations at once.
        fixed = np.stack([_placement(roll, xyz) for roll, xyz in fr3.JOINT_PLACEMENTS])
        turn_cos, turn_sin, still = np.diag([1.0, 1.0, 0, 0]), np.zeros((4, 4)), np.diag([0, 0, 1.0, 1.0])
        turn_sin[0, 1], turn_sin[1, 0] = -1.0, 1.0
        self._still, self._cos, self._sin = fixed @ still, fixed @ turn_cos, fixed @ turn_sin

    def matrix(self, q: Vector) -> Vector:
        """Homogeneous transform (4, 4) of the TCP at ``q`` (7,) rad."""
        pin.forwardKinematics(self._model, self._data, q)
        return np.asarray(pin.updateFramePlacement(self._model, self._data, self._tcp).homogeneous)

    def pose(self, q: Vector) -> Pose:
        """Pose of the TCP at ``q`` (7,) rad."""
        return Pose.from_matrix(self.matrix(q))

    def jacobian(self, q: Vector) -> Vector:
        """Geometric Jacobian (6, 7) of the TCP in base axes: linear rows first."""
        return np.asarray(
            pin.computeFrameJacobian(self._model, self._data, q, self._tcp, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        )

    def manipulability(self, q: Vector) -> float:
        """Yoshikawa's measure; 0 at a singularity, about 0.1 in the middle of the workspace."""
        jacobian = self.jacobian(q)
        return float(np.sqrt(max(0.0, np.linalg.det(jacobian @ jacobian.T))))

    def links(self, q: Vector) -> Vector:
        """Transforms (N, 9, 4, 4) of link 0 to 7 and of the Franka Hand at ``q`` (N, 7) rad."""
        steps = self._still + np.cos(q)[..., None, None] * self._cos + np.sin(q)[..., None, None] * self._sin
        out = np.empty((q.shape[0], 9, 4, 4))
        out[:, 0] = np.eye(4)
        for index in range(fr3.DOF):
            np.matmul(out[:, index], steps[:, index], out=out[:, index + 1])
        np.matmul(out[:, 7], self._hand_in_link7, out=out[:, 8])
        return out

    def tcp_of_links(self, links: Vector) -> Vector:
        """TCP transforms (N, 4, 4) from the result of :meth:`links`."""
        return np.asarray(links[:, 7] @ self._tcp_in_link7)

    def inverse_step(self, jacobian: Vector, twist: Vector, limit: float = np.inf) -> Vector:
        """Joint motion (7,) for a TCP twist (6,) [m, rad], damped near singularities; largest joint at most ``limit``."""
        gram = jacobian @ jacobian.T
        measure = np.sqrt(max(0.0, np.linalg.det(gram)))
        damping = _DAMPING if measure >= _SINGULAR else _DAMPING + 2e-2 * (1.0 - measure / _SINGULAR) ** 2
        gram[np.diag_indices(6)] += damping
        step = jacobian.T @ np.linalg.solve(gram, twist)
        largest = float(np.max(np.abs(step)))
        return step if largest <= limit else step * (limit / largest)

    def ik(
        self,
        target: Vector,
        start: Vector,
        posture: Vector | None = None,
        pull: float = 0.08,
        position_tolerance: float = 2e-4,
        orientation_tolerance: float = 1e-3,
        iterations: int = 60,
    ) -> IkResult:
        """Damped least squares from ``start`` (7,) rad to the TCP transform ``target`` (4, 4).

        The solution stays near ``start`` and leans towards ``posture`` (7,) in the null space, by the
        share ``pull`` of the way in the first iteration. Never raises: an
        unreachable target gives the nearest configuration found, with ``ok`` false and what is left.
        """
        q = np.clip(start, self.q_min, self.q_max)
        best: tuple[float, Vector, float, float] | None = None
        for iteration in range(iterations + 1):
            current = self.matrix(q)
            twist = np.empty(6)
            twist[:3] = target[:3, 3] - current[:3, 3]
            twist[3:] = pin.log3(target[:3, :3] @ current[:3, :3].T)
            position, orientation = float(np.linalg.norm(twist[:3])), float(np.linalg.norm(twist[3:]))
            if best is None or position + 0.2 * orientation < best[0]:
                best = (position + 0.2 * orientation, q, position, orientation)
            done = position <= position_tolerance and orientation <= orientation_tolerance
            if iteration == iterations or (done and (iteration > 0 or posture is None)):
                break
            jacobian = self.jacobian(q)
            step = self.inverse_step(jacobian, twist, _MAX_STEP)
            if posture is not None:
                lean = pull * _NULL_FADE**iteration * (posture - q)
                step = step + lean - self.inverse_step(jacobian, jacobian @ lean)
            q = np.clip(q + step, self.q_min, self.q_max)
        assert best is not None
        _, q, position, orientation = best
        return IkResult(
            q, position <= position_tolerance and orientation <= orientation_tolerance, position, orientation
        )


def nearest_quat(matrix: Vector, reference: Vector) -> Vector:
    """Quaternion xyzw of a rotation (3, 3), with the sign nearer to ``reference``."""
    quat = matrix_to_quat(matrix)
    return quat if float(quat @ reference) >= 0 else -quat
