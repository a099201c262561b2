"""What each motion primitive aims at: poses or joints, and when it counts as reached."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Pose, Rejected
from vlatools.core.pose import down_quat, quat_multiply, wrap_angle
from vlatools.robot import fr3
from vlatools.robot.config import ArmConfig
from vlatools.robot.model import Fr3Model
from vlatools.robot.ports import (
    FollowWaypoints,
    Home,
    MoveJoints,
    MovePose,
    MoveTo,
    Primitive,
    Retreat,
    RotatePitch,
    RotateWrist,
)

BASE, TOOL = "fr3_link0", "fr3_hand_tcp"
_MAX_TURN = 2.0  # rad: larger turns go through poses in between, so that the direction is kept
_HELD_POSITION = 0.012  # m: rotations must not drift farther than this


@dataclass(frozen=True)
class Tolerance:
    """When a motion counts as reached: m and rad at the TCP, or rad per joint; None is not judged."""

    position: float | None = None
    orientation: float | None = None
    joint: float | None = None


@dataclass(frozen=True)
class Target:
    """Aim of a primitive: ``q`` (7,) rad, or ``poses`` of the TCP to pass, the last being the end."""

    poses: tuple[Pose, ...]
    tolerance: Tolerance
    q: NDArray[np.float64] | None = None
    clips: int = 0

    def goal(self, model: Fr3Model) -> Pose:
        """Pose of the TCP at the end."""
        return model.pose(self.q) if self.q is not None else self.poses[-1]


def target_of(primitive: Primitive, here: Pose, config: ArmConfig) -> Target:
    """Aim of ``primitive`` from the TCP pose ``here``.

    Raises:
        Rejected: an argument makes no sense or lies outside the workspace; the message has value, limit and fix.
    """
    match primitive:
        case MoveTo():
            position = _vector(primitive.position, 3, "position")
            if primitive.yaw is not None and not math.isfinite(primitive.yaw):
                raise Rejected("bad_argument", f"yaw is {primitive.yaw}, it must be a finite angle in radians")
            placed = _in_base(Pose(position, Pose.identity().quat_xyzw), primitive.frame, here).position
            quat = here.quat_xyzw if primitive.yaw is None else down_quat(primitive.yaw)
            return _poses([Pose(placed, quat)], Tolerance(primitive.tolerance, 0.1), config)
        case MovePose():
            pose = _in_base(primitive.pose, primitive.frame, here)
            return _poses([pose], Tolerance(primitive.tolerance, primitive.orientation_tolerance), config)
        case FollowWaypoints():
            if not primitive.poses:
                raise Rejected("bad_argument", "poses is empty: give at least one pose")
            return _poses(
                list(primitive.poses), Tolerance(primitive.tolerance, primitive.orientation_tolerance), config
            )
        case RotateWrist():
            turn = _angle(primitive.yaw, "yaw")
            turn = turn if primitive.relative else wrap_angle(turn - here.yaw)
            return _turn(here, turn, primitive.tolerance, about_base=True)
        case RotatePitch():
            turn = _angle(primitive.pitch, "pitch")
            turn = turn if primitive.relative else wrap_angle(turn - here.pitch)
            return _turn(here, turn, primitive.tolerance, about_base=False)
        case Retreat():
            if not (math.isfinite(primitive.distance) and primitive.distance > 0):
                raise Rejected("bad_argument", f"distance is {primitive.distance} m, it must be above 0")
            top = config.limits.workspace_max[2] - config.limits.inset
            height = min(here.position[2] + primitive.distance, top)
            if height <= here.position[2]:
                raise Rejected(
                    "workspace", f"the TCP is at z = {here.position[2]:.3f} m, the workspace ends at {top:.3f} m"
                )
            clips = int(height < here.position[2] + primitive.distance)
            up = Pose(np.array([here.position[0], here.position[1], height]), here.quat_xyzw)
            return Target((up,), Tolerance(0.012, 0.1), clips=clips)
        case MoveJoints():
            q = _vector(primitive.q, 7, "q")
            low, high = fr3.Q_MIN + config.limits.joint_margin, fr3.Q_MAX - config.limits.joint_margin
            over = np.maximum(low - q, q - high)
            joint = int(np.argmax(over))
            if over[joint] > 0:
                raise Rejected(
                    "joint_limits",
                    f"joint {joint + 1} is {q[joint]:.3f} rad, the FR3 allows {low[joint]:.3f} to {high[joint]:.3f} "
                    f"(limits less a margin of {config.limits.joint_margin} rad): choose another configuration",
                )
            return Target((), Tolerance(joint=primitive.tolerance), q)
        case Home():
            return Target((), Tolerance(joint=0.01), config.home)
    raise TypeError(f"{type(primitive).__name__} does not move the arm")


def _poses(poses: list[Pose], tolerance: Tolerance, config: ArmConfig) -> Target:
    low, high = np.array(config.limits.workspace_min), np.array(config.limits.workspace_max)
    for index, pose in enumerate(poses):
        if np.any(pose.position < low) or np.any(pose.position > high):
            which = f"waypoint {index}" if len(poses) > 1 else "the target"
            raise Rejected(
                "workspace",
                f"{which} {np.round(pose.position, 3).tolist()} m is outside the workspace "
                f"{low.tolist()} to {high.tolist()}: choose a target inside (limits.workspace_* in robot.yaml)",
            )
    return Target(tuple(poses), tolerance)


def _turn(here: Pose, angle: float, tolerance: float, about_base: bool) -> Target:
    count = max(1, math.ceil(abs(angle) / _MAX_TURN))
    poses = []
    for step in range(1, count + 1):
        half = angle * step / count / 2
        if about_base:
            quat = quat_multiply((0.0, 0.0, math.sin(half), math.cos(half)), here.quat_xyzw)
        else:
            quat = quat_multiply(here.quat_xyzw, (0.0, math.sin(half), 0.0, math.cos(half)))
        poses.append(Pose(here.position, quat))
    return Target(tuple(poses), Tolerance(_HELD_POSITION, tolerance))


def _in_base(pose: Pose, frame: str, here: Pose) -> Pose:
    if frame in (BASE, ""):
        return pose
    if frame == TOOL:
        return here @ pose
    raise Rejected("bad_argument", f"frame is {frame!r}, it must be {BASE} or {TOOL}")


def _vector(values: object, size: int, name: str) -> NDArray[np.float64]:
    try:
        out = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        out = np.empty(0)
    if out.shape != (size,) or not np.all(np.isfinite(out)):
        raise Rejected("bad_argument", f"{name} is {values!r}, it must be {size} finite numbers")
    return out


def _angle(value: float, name: str) -> float:
    if not (math.isfinite(value) and abs(value) <= 2 * math.pi):
        raise Rejected("bad_argument", f"{name} is {value}, it must be an angle between -6.28 and 6.28 rad")
    return value
