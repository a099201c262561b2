"""What the policy makes of a scene: things with shapes, what stands where, how high to pass, how to take hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import RgbdFrame
from vlatools.core import Pose, Rejected
from vlatools.perception.ports import DetectedObject, Scene
from vlatools.policy.analytic.config import AnalyticConfig, ShapeConfig

Vector = NDArray[np.float64]


class SceneFinder(Protocol):
    """The part of perception that the policy uses."""

    def locate(self, frame: RgbdFrame, camera_to_base: Pose, names: Sequence[str] | None = None) -> Scene:
        """What stands on the table."""
        ...


@dataclass(frozen=True)
class Thing:
    """An object as the policy sees it.

    Attributes:
        name, category: as perception names it; category is ``cube``, ``bowl`` or another word.
        center: (3,) m in fr3_link0.
        yaw: of its sides about the vertical, rad; 0 for a bowl.
        size: (3,) m along its own axes; of a bowl the outer rim's diameter, twice, and the rim's height.
        seen: False when it is only a guess from its name.
    """

    name: str
    category: str
    center: Vector
    yaw: float
    size: Vector
    seen: bool = True

    @property
    def top(self) -> float:
        """Height of its top, m."""
        return float(self.center[2] + self.size[2] / 2)

    @property
    def bottom(self) -> float:
        """Height of its bottom, m."""
        return float(self.center[2] - self.size[2] / 2)

    @property
    def radius(self) -> float:
        """Radius of the circle around it, seen from above, m."""
        return float(self.size[0] / 2) if self.is_bowl else float(math.hypot(self.size[0], self.size[1]) / 2)

    @property
    def is_bowl(self) -> bool:
        """An open vessel that is held by its rim."""
        return self.category == "bowl"


def thing_of(found: DetectedObject) -> Thing:
    """From a detection."""
    x, y, z, w = found.pose.quat_xyzw
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return Thing(found.name, found.category, np.array(found.pose.position), yaw, np.array(found.size, dtype=float))


@dataclass(frozen=True)
class World:
    """All things of one look, without what the gripper holds.

    Attributes:
        things: the things.
        shapes: shapes that perception does not give.
    """

    things: tuple[Thing, ...]
    shapes: ShapeConfig

    def without(self, name: str) -> World:
        """The world less one thing."""
        return replace(self, things=tuple(thing for thing in self.things if thing.name != name))

    def find(self, name: str) -> Thing | None:
        """The thing of that name."""
        return next((thing for thing in self.things if thing.name == name), None)

    def highest_along(self, a: Vector, b: Vector, radius: float) -> float:
        """Height of the highest thing within ``radius`` of the straight way from ``a`` to ``b`` (2,), 0 if there is none."""
        return max((t.top for t in self.things if _gap(t.center[:2], a, b) < radius + t.radius), default=0.0)

    def support_under(self, xy: Vector, radius: float) -> float:
        """Height of what carries something of ``radius`` set down at ``xy`` (2,): a cube's top, a bowl's floor, the table."""
        height = 0.0
        for thing in self.things:
            distance = float(np.linalg.norm(thing.center[:2] - xy))
            if thing.is_bowl:
                # Beside its middle a thing would stand on the wall; the policy never aims there.
                if distance < thing.radius:
                    height = max(height, thing.bottom + self.shapes.bowl_floor)
            elif distance < 0.5 * float(thing.size[0]) + 0.7 * radius:
                height = max(height, thing.top)
        return height


def _gap(point: Vector, a: Vector, b: Vector) -> float:
    """Distance (plane) of a point from the segment a b."""
    along = b - a
    length = float(along @ along)
    share = float(np.clip((point - a) @ along / length, 0.0, 1.0)) if length > 1e-12 else 0.0
    return float(np.linalg.norm(point - (a + share * along)))


@dataclass(frozen=True)
class GraspPlan:
    """How the gripper stands around a thing.

    Attributes:
        position: of the tool, (3,) m.
        yaw: of the tool, rad.
        offset: (3,) m, the thing's centre less the tool's position, in fr3_link0 with the tool at ``yaw``.
        width: opening that the hold will have, m.
        tilt: of the tool about its own x axis, rad; along the wall of a bowl, so that the bowl stays level when lifted.
    """

    position: Vector
    yaw: float
    offset: Vector
    width: float
    tilt: float = 0.0


def plan_grasp(thing: Thing, world: World, config: AnalyticConfig, tool: Vector) -> GraspPlan:
    """Choose a grasp: a cube by two faces, a bowl by its rim.

    Args:
        thing: what to take hold of.
        world: everything; obstacles are what is not ``thing``.
        config: settings.
        tool: measured tool vector (7,), for the shortest turn.

    Raises:
        Rejected: too wide for the gripper.
    """
    others = tuple(other for other in world.things if other.name != thing.name)
    plans = _rim_grasps(thing, config.shapes) if thing.is_bowl else _side_grasps(thing, config.shapes)
    if not plans:
        raise Rejected(
            "too_wide",
            f"{thing.name} is {1e3 * float(min(thing.size[:2])):.0f} mm wide, the gripper opens to "
            f"{1e3 * config.shapes.open_width:.0f} mm: choose another object",
        )
    return min(plans, key=lambda plan: _cost(plan, thing, others, config.shapes, float(tool[3])))


def _side_grasps(thing: Thing, shapes: ShapeConfig) -> list[GraspPlan]:
    plans = []
    low = max(thing.center[2], thing.top - 0.022)  # tall things are taken near their top
    for quarter in range(4):
        yaw = math.remainder(thing.yaw + quarter * math.pi / 2, 2 * math.pi)
        if abs(yaw) > math.pi / 2 + 0.3:
            continue  # keeps the wrist in its middle range
        width = float(thing.size[0] if quarter % 2 else thing.size[1])
        if width > shapes.open_width - 0.008:
            continue
        position = np.array([thing.center[0], thing.center[1], low])
        plans.append(GraspPlan(position, yaw, thing.center - position, width))
    return plans


def _rim_grasps(thing: Thing, shapes: ShapeConfig) -> list[GraspPlan]:
    plans = []
    radius = thing.radius - shapes.bowl_wall / 2 - shapes.bowl_slope * shapes.rim_depth
    for step in range(16):
        angle = step * math.pi / 8
        out = np.array([math.cos(angle), math.sin(angle)])
        position = np.array([*(thing.center[:2] + radius * out), thing.top - shapes.rim_depth])
        # The fingers close along the tool's y axis, which stands at yaw - pi/2.
        yaw = math.remainder(angle + math.pi / 2, math.pi)
        offset = thing.center - position
        inward = float(offset[:2] @ [math.sin(yaw), -math.cos(yaw)])  # along the tool's y axis
        tilt = -math.copysign(math.atan(shapes.bowl_slope), inward)
        plans.append(GraspPlan(position, yaw, offset, shapes.bowl_wall, tilt))
    return plans


def _cost(plan: GraspPlan, thing: Thing, others: Sequence[Thing], shapes: ShapeConfig, tool_yaw: float) -> float:
    """Obstruction first, then, for a rim, the outer side, then the shortest turn."""
    close = np.array([math.sin(plan.yaw), -math.cos(plan.yaw)])  # the closing direction
    across = np.array([math.cos(plan.yaw), math.sin(plan.yaw)])
    cost = 0.15 * abs(math.remainder(plan.yaw - tool_yaw, 2 * math.pi)) + 0.1 * abs(plan.yaw)
    finger = shapes.open_width / 2 + shapes.finger_thickness
    for other in others:
        delta = other.center[:2] - plan.position[:2]
        along, beside = abs(float(delta @ close)), abs(float(delta @ across))
        # A tilted hand is lower on its outer side.
        outer = plan.tilt != 0.0 and float(delta @ plan.offset[:2]) < 0
        low = shapes.hand_height - (shapes.hand_length * math.sin(abs(plan.tilt)) if outer else 0.0)
        hand_top = other.top - (plan.position[2] + low) + 0.01
        finger_top = other.top - (plan.position[2] - shapes.finger_reach)
        if hand_top > 0:
            cost += 10.0 * _overlap(along, beside, shapes.hand_length, shapes.hand_depth, other.radius)
        if finger_top > 0 and other.bottom < plan.position[2] + shapes.hand_height:
            cost += 10.0 * _overlap(along, beside, finger, 0.012, other.radius)
    if thing.is_bowl:
        # The outer side: neighbours are fewer there, and a tilted wrist keeps its range near and far.
        outward = math.copysign(1.0, float(thing.center[1])) * -plan.offset[1] / max(1e-6, float(np.linalg.norm(plan.offset[:2])))
        cost += 0.8 * (1.0 - outward)
    return cost


def _overlap(along: float, beside: float, half_along: float, half_beside: float, radius: float) -> float:
    """How deep a disc of ``radius`` reaches into a rectangle, 0 when clear, in units of 1 cm, at most 5."""
    gap = math.hypot(max(0.0, along - half_along), max(0.0, beside - half_beside))
    return min(5.0, max(0.0, radius + 0.005 - gap) / 0.01)
