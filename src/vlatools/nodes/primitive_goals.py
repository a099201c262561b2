"""The primitives as actions: for each, its name under /primitives, its action, and the way from and to its goal.

In a goal 0 stands for the default, because ROS numbers cannot be absent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from vlatools_interfaces import action as actions

from vlatools.nodes.convert import point_from_msg, point_to_msg, pose_from_msg, pose_to_msg
from vlatools.robot.ports import (
    FollowWaypoints,
    Grasp,
    Home,
    MoveJoints,
    MovePose,
    MoveTo,
    Primitive,
    Release,
    Retreat,
    RotatePitch,
    RotateWrist,
    SetGripper,
)

_TOLERANCE, _ORIENTATION, _JOINT, _TURN = 0.012, 0.05, 0.01, 0.02
_BASE = "fr3_link0"


@dataclass(frozen=True)
class PrimitiveAction:
    """One primitive's action.

    Attributes:
        name: the server is ``/primitives/<name>``.
        action: action type.
        kind: the primitive's class.
        from_goal: primitive of a goal; raises Rejected where a pose is no pose.
        to_goal: goal of a primitive.
    """

    name: str
    action: Any
    kind: type[Any]
    from_goal: Callable[[Any], Primitive]
    to_goal: Callable[[Any], Any]


def _common(goal: Any) -> dict[str, Any]:
    return {"speed_scale": goal.speed_scale or 1.0, "timeout_s": goal.timeout or None}


def _numbers(primitive: Any) -> dict[str, float]:
    return {"speed_scale": float(primitive.speed_scale), "timeout": float(primitive.timeout_s or 0.0)}


PRIMITIVES: tuple[PrimitiveAction, ...] = (
    PrimitiveAction(
        "move_to",
        actions.MoveTo,
        MoveTo,
        lambda g: MoveTo(
            point_from_msg(g.position),
            yaw=g.target_yaw if g.use_yaw else None,
            frame=g.frame_id or _BASE,
            tolerance=g.tolerance or _TOLERANCE,
            **_common(g),
        ),
        lambda p: actions.MoveTo.Goal(
            position=point_to_msg(p.position),
            frame_id=p.frame,
            use_yaw=p.yaw is not None,
            target_yaw=float(p.yaw or 0.0),
            tolerance=float(p.tolerance),
            **_numbers(p),
        ),
    ),
    PrimitiveAction(
        "move_pose",
        actions.MovePose,
        MovePose,
        lambda g: MovePose(
            pose_from_msg(g.pose),
            frame=g.frame_id or _BASE,
            tolerance=g.tolerance or _TOLERANCE,
            orientation_tolerance=g.orientation_tolerance or _ORIENTATION,
            **_common(g),
        ),
        lambda p: actions.MovePose.Goal(
            pose=pose_to_msg(p.pose),
            frame_id=p.frame,
            tolerance=float(p.tolerance),
            orientation_tolerance=float(p.orientation_tolerance),
            **_numbers(p),
        ),
    ),
    PrimitiveAction(
        "move_joints",
        actions.MoveJoints,
        MoveJoints,
        lambda g: MoveJoints(np.array(g.q, dtype=float), tolerance=g.tolerance or _JOINT, **_common(g)),
        lambda p: actions.MoveJoints.Goal(q=np.asarray(p.q, dtype=float), tolerance=float(p.tolerance), **_numbers(p)),
    ),
    PrimitiveAction(
        "follow_waypoints",
        actions.FollowWaypoints,
        FollowWaypoints,
        lambda g: FollowWaypoints(
            tuple(pose_from_msg(pose) for pose in g.poses),
            tolerance=g.tolerance or _TOLERANCE,
            orientation_tolerance=g.orientation_tolerance or _ORIENTATION,
            **_common(g),
        ),
        lambda p: actions.FollowWaypoints.Goal(
            poses=[pose_to_msg(pose) for pose in p.poses],
            tolerance=float(p.tolerance),
            orientation_tolerance=float(p.orientation_tolerance),
            **_numbers(p),
        ),
    ),
    PrimitiveAction(
        "rotate_wrist",
        actions.RotateWrist,
        RotateWrist,
        lambda g: RotateWrist(g.yaw, relative=g.relative, tolerance=g.tolerance or _TURN, **_common(g)),
        lambda p: actions.RotateWrist.Goal(
            yaw=float(p.yaw), relative=p.relative, tolerance=float(p.tolerance), **_numbers(p)
        ),
    ),
    PrimitiveAction(
        "rotate_pitch",
        actions.RotatePitch,
        RotatePitch,
        lambda g: RotatePitch(g.pitch, relative=g.relative, tolerance=g.tolerance or _TURN, **_common(g)),
        lambda p: actions.RotatePitch.Goal(
            pitch=float(p.pitch), relative=p.relative, tolerance=float(p.tolerance), **_numbers(p)
        ),
    ),
    PrimitiveAction(
        "home", actions.Home, Home, lambda g: Home(**_common(g)), lambda p: actions.Home.Goal(**_numbers(p))
    ),
    PrimitiveAction(
        "retreat",
        actions.Retreat,
        Retreat,
        lambda g: Retreat(g.distance or 0.10, **_common(g)),
        lambda p: actions.Retreat.Goal(distance=float(p.distance), **_numbers(p)),
    ),
    PrimitiveAction(
        "set_gripper",
        actions.SetGripper,
        SetGripper,
        lambda g: SetGripper(g.width, speed=g.speed or None, timeout_s=g.timeout or 5.0),
        lambda p: actions.SetGripper.Goal(
            width=float(p.width), speed=float(p.speed or 0.0), timeout=float(p.timeout_s)
        ),
    ),
    PrimitiveAction(
        "grasp",
        actions.Grasp,
        Grasp,
        lambda g: Grasp(
            force=g.force or None, speed=g.speed or None, min_width=g.min_width or 0.005, timeout_s=g.timeout or 5.0
        ),
        lambda p: actions.Grasp.Goal(
            force=float(p.force or 0.0),
            speed=float(p.speed or 0.0),
            min_width=float(p.min_width),
            timeout=float(p.timeout_s),
        ),
    ),
    PrimitiveAction(
        "release",
        actions.Release,
        Release,
        lambda g: Release(g.width or 0.08, timeout_s=g.timeout or 5.0),
        lambda p: actions.Release.Goal(width=float(p.width), timeout=float(p.timeout_s)),
    ),
)

_BY_KIND = {entry.kind: entry for entry in PRIMITIVES}


def action_of(primitive: Primitive) -> PrimitiveAction:
    """The action of a primitive."""
    return _BY_KIND[type(primitive)]
