"""The physical world: a MuJoCo model of the scene with the robot in it, advanced in steps of 1 ms.

It knows nothing of ports, sockets or wall time. What drives the arm is either the impedance drive (joint stiffness and
damping towards a reference, in MuJoCo's own loop) or torques on top of gravity compensation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import mujoco
import numpy as np
from numpy.typing import NDArray

from vlatools.core import Pose
from vlatools.robot import fr3
from vlatools.robot.config import ArmConfig
from vlatools.sim import mjcf
from vlatools.sim.scene import Kind, SceneInstance

Vector = NDArray[np.float64]

TORQUE_LIMITS = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
FINGER_SPEED = 0.05  # m/s of one finger, the Franka Hand's limit
_GRASP_REACH = 0.02  # m that a grasp's servo may run beyond contact: enough for 70 N
_STILL = 0.002  # m/s of a finger that stands


@dataclass(frozen=True)
class ObjectTruth:
    """True state of one object.

    Attributes:
        pose: centre of its bounding box in fr3_link0.
        size: extents (3,) along its own axes, m.
        kind: cube or bowl.
        velocity: (3,) m/s; spin: (3,) rad/s in its own axes.
        held: both fingers touch it.
    """

    pose: Pose
    size: Vector
    kind: Kind
    velocity: Vector
    spin: Vector
    held: bool


@dataclass(frozen=True)
class Truth:
    """True state of the world, for judges and tests only.

    Attributes:
        time_s: simulated seconds since the world was made; resets do not turn it back.
        objects: by name.
        ee: pose of fr3_hand_tcp in fr3_link0.
        q: joints (7,) rad.
        gripper_width: full opening, m.
    """

    time_s: float
    objects: Mapping[str, ObjectTruth]
    ee: Pose
    q: Vector
    gripper_width: float


class World:
    """A scene with the robot at home and the gripper open."""

    instance: SceneInstance
    model: mujoco.MjModel
    data: mujoco.MjData

    def __init__(self, instance: SceneInstance) -> None:
        self.home = ArmConfig().home
        self.ticks = 0  # steps since the world was made
        self._load = (0.0, np.zeros(3))
        self._build(instance)

    # -- scene ----------------------------------------------------------------------------------------------------
    def reset(self, instance: SceneInstance) -> None:
        """Put everything where ``instance`` has it: objects, arm at home, gripper open. Time goes on."""
        if mjcf.same_model(instance, self.instance):
            self.instance = instance
            mjcf.adapt_model(self.model, instance)
            self._place()
        else:
            self._build(instance)

    def _build(self, instance: SceneInstance) -> None:
        self.instance = instance
        self.model = mujoco.MjModel.from_xml_string(mjcf.build_mjcf(instance))
        mjcf.adapt_model(self.model, instance)
        self.data = mujoco.MjData(self.model)
        model, fingers = self.model, ("finger_joint1", "finger_joint2")
        self.q_slice = slice(int(model.joint("fr3_joint1").qposadr[0]), int(model.joint("fr3_joint7").qposadr[0]) + 1)
        self.v_slice = slice(int(model.joint("fr3_joint1").dofadr[0]), int(model.joint("fr3_joint7").dofadr[0]) + 1)
        self._finger_q = np.array([int(model.joint(name).qposadr[0]) for name in fingers])
        self._finger_v = np.array([int(model.joint(name).dofadr[0]) for name in fingers])
        self._finger_drive = np.array([model.actuator("finger1").id, model.actuator("finger2").id])
        self._finger_act = np.array([int(model.actuator_actadr[index]) for index in self._finger_drive])
        self._stiffness = np.array([model.actuator(f"stiffness{index + 1}").id for index in range(fr3.DOF)])
        self._damping = np.array([model.actuator(f"damping{index + 1}").id for index in range(fr3.DOF)])
        self._hand = int(model.body("hand").id)
        self.robot_bodies = _robot_bodies(model)
        self._finger_bodies = (int(model.body("left_finger").id), int(model.body("right_finger").id))
        self._bodies = {thing.name: int(model.body(mjcf.body_name(thing.name)).id) for thing in instance.objects}
        self._place()

    def _place(self) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[self.q_slice] = self.home
        self.data.qpos[self._finger_q] = fr3.MAX_OPENING / 2
        for thing in self.instance.objects:
            self._put(thing.name, thing.pose)
        self.hold_fingers()
        self.use_impedance(True)
        self.set_reference(self.home, np.zeros(fr3.DOF))
        mujoco.mj_forward(self.model, self.data)

    def advance(self, ticks: int) -> None:
        """Go on by ``ticks`` milliseconds."""
        if self._load[0] > 0.0:
            self._lift_load()
        mujoco.mj_step(self.model, self.data, nstep=ticks)
        self.ticks += ticks

    # -- arm ------------------------------------------------------------------------------------------------------
    @property
    def q(self) -> Vector:
        """Joint positions (7,) rad, a copy."""
        return self.data.qpos[self.q_slice].copy()

    @property
    def dq(self) -> Vector:
        """Joint velocities (7,) rad/s, a copy."""
        return self.data.qvel[self.v_slice].copy()

    def use_impedance(self, on: bool) -> None:
        """Drive the arm by its impedance drive, or else by :meth:`set_torque`; gravity is compensated in both cases."""
        bit = 1 << mjcf.ARM_GROUP
        disabled = int(self.model.opt.disableactuator)
        self.model.opt.disableactuator = disabled & ~bit if on else disabled | bit
        self.data.qfrc_applied[self.v_slice] = 0.0

    def set_gains(self, stiffness: Vector, damping: Vector) -> None:
        """Impedance drive: N m/rad and N m s/rad, each (7,)."""
        self.model.actuator_gainprm[self._stiffness, 0] = stiffness
        self.model.actuator_biasprm[self._stiffness, 1] = -stiffness
        self.model.actuator_gainprm[self._damping, 0] = damping
        self.model.actuator_biasprm[self._damping, 2] = -damping

    def set_reference(self, q: Vector, dq: Vector) -> None:
        """Reference of the impedance drive: (7,) rad and rad/s."""
        self.data.ctrl[self._stiffness] = q
        self.data.ctrl[self._damping] = dq

    def set_torque(self, tau: Vector) -> None:
        """Torques (7,) N m beside gravity compensation, clipped to the FR3's limits."""
        self.data.qfrc_applied[self.v_slice] = np.clip(tau, -TORQUE_LIMITS, TORQUE_LIMITS)

    def joint_torques(self) -> Vector:
        """What the joints' sensors would measure, gravity included, (7,) N m."""
        data, joints = self.data, self.v_slice
        return data.qfrc_applied[joints] + data.qfrc_actuator[joints] + data.qfrc_gravcomp[joints]

    def set_load(self, mass: float, center: Vector) -> None:
        """Load beyond the hand that the robot believes to carry and compensates: kg, and (3,) m in the flange's frame."""
        self._load = (mass, np.asarray(center, float))
        self.data.xfrc_applied[self._hand] = 0.0

    def _lift_load(self) -> None:
        mass, center = self._load
        half = -fr3.HAND_YAW  # the hand's frame is the flange's, turned about z
        turn = np.array([[np.cos(half), -np.sin(half), 0], [np.sin(half), np.cos(half), 0], [0, 0, 1.0]])
        arm = self.data.xmat[self._hand].reshape(3, 3) @ turn @ center + self.data.xpos[self._hand]
        lift = np.array([0.0, 0.0, -mass * self.model.opt.gravity[2]])
        self.data.xfrc_applied[self._hand, :3] = lift
        self.data.xfrc_applied[self._hand, 3:] = np.cross(arm - self.data.xipos[self._hand], lift)

    def update_kinematics(self) -> None:
        """Bring body poses up to the joint positions; a step leaves them 1 ms behind."""
        mujoco.mj_kinematics(self.model, self.data)

    def ee_matrix(self) -> Vector:
        """Homogeneous transform (4, 4) of fr3_hand_tcp as of the last kinematics."""
        out = np.eye(4)
        out[:3, :3] = self.data.xmat[self._hand].reshape(3, 3)
        out[:3, 3] = self.data.xpos[self._hand] + fr3.HAND_TCP_Z * out[:3, 2]
        return out

    def ee_pose(self) -> Pose:
        """Pose of fr3_hand_tcp in fr3_link0 as of the last kinematics."""
        w, x, y, z = self.data.xquat[self._hand]
        ahead = self.data.xmat[self._hand, 2::3]
        return Pose(self.data.xpos[self._hand] + fr3.HAND_TCP_Z * ahead, np.array([x, y, z, w]))

    # -- gripper --------------------------------------------------------------------------------------------------
    @property
    def gripper_width(self) -> float:
        """Full opening read from the fingers, m."""
        return max(0.0, float(self.data.qpos[self._finger_q].sum()))

    def move_fingers(self, width: float, finger_speed: float, force: float = 70.0) -> None:
        """Begin moving to an opening of ``width`` m, each finger at up to ``finger_speed`` m/s, with up to ``force`` N."""
        self._drive_fingers(min(max(width, 0.0), fr3.MAX_OPENING) / 2, finger_speed, force, reach=0.0)

    def grasp(self, width: float, finger_speed: float, force: float) -> None:
        """Begin closing (or opening) towards ``width`` m; on contact each finger presses with ``force`` N and goes on so."""
        self._drive_fingers(min(max(width, 0.0), fr3.MAX_OPENING) / 2, finger_speed, force, reach=_GRASP_REACH)

    def hold_fingers(self) -> None:
        """Stop the fingers where they are."""
        self._drive_fingers(self.gripper_width / 2, FINGER_SPEED, 70.0, reach=0.0)

    def _drive_fingers(self, goal: float, speed: float, force: float, reach: float) -> None:
        here = self.gripper_width / 2
        closing = goal <= here
        low, high = (goal - reach, max(here, goal)) if closing else (here, goal + reach)
        # MuJoCo clamps the moving set point to this range, so that it stops at the goal without our help.
        self.model.actuator_actrange[self._finger_drive] = (low, max(high, low + 1e-6))
        self.model.actuator_forcerange[self._finger_drive] = (-force, force)
        self.data.act[self._finger_act] = here
        self.data.ctrl[self._finger_drive] = (-1 if closing else 1) * min(max(speed, 0.001), FINGER_SPEED)
        self._finger_goal, self._finger_reach, self._finger_force = goal, reach, force
        self._finger_since = self.ticks

    def fingers_settled(self) -> bool:
        """The fingers stand: at the goal, or because something stops them."""
        if self.ticks - self._finger_since < 60 or np.any(np.abs(self.data.qvel[self._finger_v]) > _STILL):
            return False
        point = float(self.data.act[self._finger_act[0]])
        here = float(self.data.qpos[self._finger_q].mean())
        pressing = mjcf.FINGER_STIFFNESS * abs(point - here) >= 0.98 * self._finger_force
        return pressing or (self._finger_reach == 0.0 and abs(point - self._finger_goal) < 1e-5)

    # -- truth ----------------------------------------------------------------------------------------------------
    def truth(self) -> Truth:
        """True state now."""
        self.update_kinematics()
        held = self.held()
        objects = {}
        for thing in self.instance.objects:
            body = self._bodies[thing.name]
            w, x, y, z = self.data.xquat[body]
            dof = int(self.model.body_dofadr[body])
            objects[thing.name] = ObjectTruth(
                Pose(self.data.xpos[body], np.array([x, y, z, w])),
                np.array(thing.extents),
                thing.kind,
                self.data.qvel[dof : dof + 3].copy(),
                self.data.qvel[dof + 3 : dof + 6].copy(),
                thing.name in held,
            )
        return Truth(
            self.ticks * mjcf.TIMESTEP,
            MappingProxyType(objects),
            self.ee_pose(),
            self.q,
            self.gripper_width,
        )

    def held(self) -> frozenset[str]:
        """Names of the objects that both fingers touch."""
        pairs = self.model.geom_bodyid[self.data.contact.geom]
        left, right = self._finger_bodies
        by_left = set(pairs[(pairs == left).any(axis=1)].ravel().tolist())
        by_right = set(pairs[(pairs == right).any(axis=1)].ravel().tolist())
        both = by_left & by_right
        return frozenset(name for name, body in self._bodies.items() if body in both)

    # -- the hand of a person -------------------------------------------------------------------------------------
    def teleport(self, name: str, pose: Pose) -> None:
        """Move an object at once, at rest; ``pose`` is of the centre of its bounding box."""
        self._put(name, pose)
        mujoco.mj_forward(self.model, self.data)

    def knock(self, name: str, impulse: Vector) -> None:
        """Hit an object with ``impulse`` (3,) N s. A held one is first pushed out sideways between the fingers."""
        body = self._body(name)
        self.update_kinematics()
        if name in self.held():
            w, x, y, z = self.data.xquat[body]
            sideways = self.data.xmat[self._hand].reshape(3, 3)[:, 0]
            self._put(name, Pose(self.data.xpos[body] + 0.05 * sideways, np.array([x, y, z, w])))
        dof = int(self.model.body_dofadr[body])
        self.data.qvel[dof : dof + 3] += np.asarray(impulse, float) / float(self.model.body_mass[body])
        mujoco.mj_forward(self.model, self.data)

    def _put(self, name: str, pose: Pose) -> None:
        body = self._body(name)
        joint = int(self.model.body_jntadr[body])
        at, dof = int(self.model.jnt_qposadr[joint]), int(self.model.jnt_dofadr[joint])
        x, y, z, w = pose.quat_xyzw
        self.data.qpos[at : at + 7] = (*pose.position, w, x, y, z)
        self.data.qvel[dof : dof + 6] = 0.0

    def _body(self, name: str) -> int:
        try:
            return self._bodies[name]
        except KeyError:
            raise KeyError(f"no object {name!r} in this scene, there are: {', '.join(self._bodies)}") from None


def _robot_bodies(model: mujoco.MjModel) -> NDArray[np.int32]:
    """For each body: how many arm joints move it (0 to 7), or -1 for what is not the robot."""
    chain = np.full(model.nbody, -1, np.int32)
    chain[int(model.body("fr3_link0").id)] = 0
    for index in range(fr3.DOF):
        chain[int(model.body(f"fr3_link{index + 1}").id)] = index + 1
    for name in ("hand", "left_finger", "right_finger"):
        chain[int(model.body(name).id)] = fr3.DOF
    return chain
