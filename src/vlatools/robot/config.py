"""Configuration of the arm: limits, speeds, home, gripper, gains. Loaded from ``config/robot.yaml``."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ConfigError
from vlatools.robot import fr3

Triple = tuple[float, float, float]
Joints = tuple[float, float, float, float, float, float, float]

_FORBID: dict[str, Any] = {"extra": "forbid"}


def _between(key: str, value: float, low: float, high: float, fix: str) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"robot config: {key} is {value}, the limits are {low:g} to {high:g}: {fix}")


@dataclass(frozen=True)
class SpeedConfig:
    """How fast the arm may move.

    Attributes:
        joint_scale: share of the FR3's joint velocity limits that any reference may use.
        joint_acceleration: rad/s^2, of any reference (the FR3 allows 10).
        joint_jerk: rad/s^3, of any reference (the FR3 allows 5000; gentle motion needs far less).
        tcp: TCP speed of primitives and chunks, m/s.
        tcp_acceleration: m/s^2, of primitives.
        rotation: TCP angular speed, rad/s.
        rotation_acceleration: rad/s^2, of primitives.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    joint_scale: float = 0.5
    joint_acceleration: float = 6.0
    joint_jerk: float = 250.0
    tcp: float = 0.35
    tcp_acceleration: float = 1.5
    rotation: float = 1.8
    rotation_acceleration: float = 6.0

    def __post_init__(self) -> None:
        _between("speed.joint_scale", self.joint_scale, 0.01, 1.0, "it is a share of the FR3's joint velocity limits")
        _between("speed.joint_acceleration", self.joint_acceleration, 0.1, 10.0, "the FR3 allows 10 rad/s^2")
        _between("speed.joint_jerk", self.joint_jerk, 1.0, 5000.0, "the FR3 allows 5000 rad/s^3")
        _between("speed.tcp", self.tcp, 0.01, 1.5, "0.35 m/s is brisk on a table")
        _between("speed.tcp_acceleration", self.tcp_acceleration, 0.05, 6.0, "1.5 m/s^2 is brisk on a table")
        _between("speed.rotation", self.rotation, 0.01, 2.5, "the FR3 allows 2.5 rad/s")
        _between("speed.rotation_acceleration", self.rotation_acceleration, 0.1, 17.0, "the FR3 allows 17 rad/s^2")


@dataclass(frozen=True)
class LimitConfig:
    """Where the arm may be, and how hard it may press.

    Attributes:
        workspace_min, workspace_max: box for the TCP in fr3_link0, m.
        table_height: z of the table top in fr3_link0, m.
        table_clearance: fingers, hand and links stay this far above the table, m.
        joint_margin: the reference stays this far from the FR3's joint limits, rad.
        self_collision_clearance: least gap between the spheres of the body model, m; they already enclose the links.
        inset: targets are clipped to the box shrunk by this, so that the path between them stays inside, m.
        contact_force: external force at the TCP that aborts a motion, N.
        jump_position, jump_rotation, jump_joint: a chunk that asks for a larger step is refused, m, rad, rad.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    workspace_min: Triple = (0.20, -0.40, 0.0)
    workspace_max: Triple = (0.78, 0.40, 0.70)
    table_height: float = 0.0
    table_clearance: float = 0.002
    joint_margin: float = 0.03
    self_collision_clearance: float = 0.0
    inset: float = 0.005
    contact_force: float = 35.0
    jump_position: float = 0.12
    jump_rotation: float = 0.8
    jump_joint: float = 0.5

    def __post_init__(self) -> None:
        for axis, low, high in zip("xyz", self.workspace_min, self.workspace_max, strict=True):
            _between(f"limits.workspace_min.{axis}", low, -1.0, 1.2, "the FR3 reaches 0.855 m")
            _between(f"limits.workspace_max.{axis}", high, -1.0, 1.2, "the FR3 reaches 0.855 m")
            if high - low < 0.02 + 2 * self.inset:
                raise ConfigError(
                    f"robot config: limits.workspace_{{min,max}}.{axis} are {low} and {high} m: "
                    f"the box must be wider than {0.02 + 2 * self.inset:.3f} m"
                )
        _between("limits.table_height", self.table_height, -0.5, 0.5, "the table top in fr3_link0")
        _between("limits.table_clearance", self.table_clearance, 0.0, 0.1, "2 mm lets the fingers grasp flat objects")
        _between("limits.joint_margin", self.joint_margin, 0.0, 0.3, "0.03 rad keeps clear of the robot's own stop")
        _between("limits.self_collision_clearance", self.self_collision_clearance, 0.0, 0.1, "0 is enough")
        _between("limits.inset", self.inset, 0.0, 0.05, "5 mm is enough")
        _between("limits.contact_force", self.contact_force, 5.0, 100.0, "35 N stops before it hurts")
        _between("limits.jump_position", self.jump_position, 0.005, 0.5, "0.12 m is one step of a fast policy")
        _between("limits.jump_rotation", self.jump_rotation, 0.05, 3.2, "0.8 rad is one step of a fast policy")
        _between("limits.jump_joint", self.jump_joint, 0.05, 3.0, "0.5 rad is one step of a fast policy")


@dataclass(frozen=True)
class StreamConfig:
    """How chunks become motion.

    Attributes:
        max_age_s: a chunk whose observation is older is refused.
        blend_s: time over which the step into a new chunk fades.
        lookahead_s: velocity is taken over this time ahead, so that the arm slows down before the last row.
        linger_s: a stream that ran out stays open this long for the next chunk, holding.
        gripper_hysteresis: a change of the gripper column below this does nothing, m.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    max_age_s: float = 1.0
    blend_s: float = 0.15
    lookahead_s: float = 0.08
    linger_s: float = 2.0
    gripper_hysteresis: float = 0.006

    def __post_init__(self) -> None:
        _between("stream.max_age_s", self.max_age_s, 0.05, 10.0, "a chunk should start from a fresh observation")
        _between("stream.blend_s", self.blend_s, 0.0, 1.0, "0.15 s hides the seam without lag")
        _between("stream.lookahead_s", self.lookahead_s, 0.02, 0.5, "0.08 s is about the arm's stopping time")
        _between("stream.linger_s", self.linger_s, 0.1, 30.0, "longer than the policy's slowest reply")
        _between("stream.gripper_hysteresis", self.gripper_hysteresis, 0.001, 0.03, "6 mm ignores a policy's jitter")


@dataclass(frozen=True)
class GripperConfig:
    """The Franka Hand.

    Attributes:
        speed: of the opening, m/s.
        force: of a grasp, N.
        min_width: a grasp that ends below this is empty, m.
        width_tolerance: an opening counts as reached within this, m.
        read_rate_hz: how often the worker measures.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    speed: float = 0.1
    force: float = 40.0
    min_width: float = 0.002
    width_tolerance: float = 0.006
    read_rate_hz: float = 10.0

    def __post_init__(self) -> None:
        _between("gripper.speed", self.speed, 0.005, 0.2, "the Franka Hand closes at up to 0.1 m/s")
        _between("gripper.force", self.force, 1.0, 70.0, "the Franka Hand holds with up to 70 N")
        _between("gripper.min_width", self.min_width, 0.001, 0.05, "thinner objects cannot be told from none")
        _between("gripper.width_tolerance", self.width_tolerance, 0.001, 0.02, "friction leaves about 2 mm")
        _between("gripper.read_rate_hz", self.read_rate_hz, 1.0, 50.0, "a reading takes up to 0.1 s")


@dataclass(frozen=True)
class SettleConfig:
    """End of a motion, and what counts as standing still.

    Attributes:
        gain: 1/s, how fast the reference is corrected by the measured error at the end of a motion.
        bound: most that the reference is corrected per joint, rad.
        position, rotation, joint: good enough to stop correcting, m, rad, rad.
        timeout_s: longest correction.
        standstill_speed: joints slower than this stand still, rad/s.
        standstill_s: for this long.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    gain: float = 5.0
    bound: float = 0.03
    position: float = 0.0012
    rotation: float = 0.008
    joint: float = 0.003
    timeout_s: float = 1.0
    standstill_speed: float = 0.02
    standstill_s: float = 0.1

    def __post_init__(self) -> None:
        _between("settle.gain", self.gain, 0.0, 20.0, "faster would oscillate")
        _between("settle.bound", self.bound, 0.0, 0.1, "friction and load leave at most a few hundredths")
        _between("settle.position", self.position, 2e-4, 0.02, "1 mm is what the FR3 can hold")
        _between("settle.rotation", self.rotation, 1e-3, 0.1, "about half a degree")
        _between("settle.joint", self.joint, 5e-4, 0.05, "a few thousandths")
        _between("settle.timeout_s", self.timeout_s, 0.1, 10.0, "1 s")
        _between("settle.standstill_speed", self.standstill_speed, 1e-3, 0.2, "above the noise of dq, 0.02 rad/s")
        _between("settle.standstill_s", self.standstill_s, 0.02, 2.0, "0.1 s")


@dataclass(frozen=True)
class RobotConfig:
    """What the driver sets on the robot itself (the FCI), at every connection.

    Attributes:
        stiffness, damping: joint impedance gains (7,), N m/rad and N m s/rad.
        collision_torque, collision_force: thresholds of the robot's own reflex, N m and N; above ``limits.contact_force``.
        load_mass, load_center, load_inertia: tool beyond the Franka Hand, kg, m (flange frame), kg m^2 (diagonal).
        connect_timeout_s: longest wait for a connection.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    stiffness: Joints = (600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 50.0)
    damping: Joints = (50.0, 50.0, 50.0, 50.0, 30.0, 25.0, 15.0)
    collision_torque: float = 40.0
    collision_force: float = 60.0
    load_mass: float = 0.0
    load_center: Triple = (0.0, 0.0, 0.0)
    load_inertia: Triple = (0.001, 0.001, 0.001)
    connect_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            for index, value in enumerate(getattr(self, name)):
                _between(f"robot.{name}[{index}]", value, 0.0, 2000.0, "see franky's JointImpedanceTracker")
        _between("robot.collision_torque", self.collision_torque, 5.0, 100.0, "20 to 60 N m")
        _between("robot.collision_force", self.collision_force, 5.0, 100.0, "20 to 80 N")
        _between("robot.load_mass", self.load_mass, 0.0, 3.0, "the FR3 carries 3 kg")
        _between("robot.connect_timeout_s", self.connect_timeout_s, 0.5, 60.0, "5 s")


@dataclass(frozen=True)
class ArmConfig:
    """Everything that :class:`vlatools.robot.controller.ArmController` and the driver need.

    Attributes:
        model: robot model; only ``fr3`` is known.
        control_rate_hz: rate of the control loop.
        home_q: home configuration (7,) rad.
        tcp_z: TCP beyond the hand's frame, m.
        state_max_age_s: older robot states stop the arm.
        stop_timeout_s: longest wait for a measured standstill.
        recover_attempts: automatic recoveries within a minute before a person is asked.
        reconnect_min_s, reconnect_max_s: back-off between attempts to connect.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    model: str = "fr3"
    control_rate_hz: float = 50.0
    home_q: Joints = (0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398)
    tcp_z: float = fr3.HAND_TCP_Z
    state_max_age_s: float = 0.3
    stop_timeout_s: float = 2.0
    recover_attempts: int = 3
    reconnect_min_s: float = 0.5
    reconnect_max_s: float = 3.0
    speed: SpeedConfig = field(default_factory=SpeedConfig)
    limits: LimitConfig = field(default_factory=LimitConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    gripper: GripperConfig = field(default_factory=GripperConfig)
    settle: SettleConfig = field(default_factory=SettleConfig)
    robot: RobotConfig = field(default_factory=RobotConfig)

    def __post_init__(self) -> None:
        if self.model != "fr3":
            raise ConfigError(
                f"robot config: model is {self.model!r}, only 'fr3' is known: "
                "limits and kinematics are the FR3's, another robot needs its own (a Panda's differ)"
            )
        _between("control_rate_hz", self.control_rate_hz, 20.0, 500.0, "50 Hz suits the impedance tracker")
        _between("tcp_z", self.tcp_z, 0.0, 0.5, "0.1034 m for the Franka Hand")
        _between("state_max_age_s", self.state_max_age_s, 0.02, 2.0, "0.3 s")
        _between("stop_timeout_s", self.stop_timeout_s, 0.3, 20.0, "2 s")
        _between("recover_attempts", self.recover_attempts, 0, 20, "3")
        _between("reconnect_min_s", self.reconnect_min_s, 0.05, 60.0, "0.5 s")
        _between("reconnect_max_s", self.reconnect_max_s, self.reconnect_min_s, 600.0, "at least reconnect_min_s")
        low, high = fr3.Q_MIN + self.limits.joint_margin, fr3.Q_MAX - self.limits.joint_margin
        for index, value in enumerate(self.home_q):
            _between(
                f"home_q[{index}]", value, float(low[index]), float(high[index]), "FR3 joint limits less the margin"
            )

    def at_speed(self, scale: float) -> ArmConfig:
        """The same with all speeds scaled by ``scale``, above 0 up to 1."""
        _between("speed scale", scale, 0.01, 1.0, "1 is the configured speed")
        names = ("joint_scale", "tcp", "rotation")
        slower = {name: max(0.01, scale * getattr(self.speed, name)) for name in names}
        return dataclasses.replace(self, speed=dataclasses.replace(self.speed, **slower))

    @property
    def period_s(self) -> float:
        """Control period, s."""
        return 1.0 / self.control_rate_hz

    @property
    def home(self) -> NDArray[np.float64]:
        """Home configuration as an array (7,) rad."""
        return np.array(self.home_q)

    @property
    def velocity_limits(self) -> NDArray[np.float64]:
        """Joint velocities (7,) rad/s that a reference may use."""
        return self.speed.joint_scale * fr3.DQ_MAX
