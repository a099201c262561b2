"""reach, grasp, move and release: what each family's stages are, from the scene and from what the gripper holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Invocation, Rejected
from vlatools.core.pose import wrap_angle
from vlatools.policy.analytic.config import AnalyticConfig
from vlatools.policy.analytic.path import downward, nearest_turn, tool_vector
from vlatools.policy.analytic.session import StagedSession
from vlatools.policy.analytic.sight import Sight
from vlatools.policy.analytic.stages import Close, Keep, Leg, Open, Stage, Waypoint
from vlatools.policy.analytic.world import GraspPlan, Thing, World, plan_grasp
from vlatools.policy.ports import Observation

Vector = NDArray[np.float64]

_AROUND = 0.03  # m: the tool stands around a thing when it is this near to its grasp
_SHIFT_MIN, _SHIFT_MAX = 0.001, 0.20  # m: a smaller shift of a goal is noise, a larger one is another thing


@dataclass(frozen=True)
class Held:
    """What the gripper holds, as far as it is known.

    Attributes:
        thing: the thing where it was taken hold of.
        offset: (3,) m, its centre in the tool's frame of a gripper at yaw 0 that points down, axes of fr3_link0.
        bearing: its yaw less the tool's, rad.
        tilt: of the tool when it took hold, rad; kept until it lets go.
        seen: False when it is only a guess from its name.
    """

    thing: Thing
    offset: Vector
    bearing: float
    tilt: float = 0.0
    seen: bool = True

    def below(self) -> float:
        """How far its bottom is below the tool, m."""
        return float(self.thing.size[2] / 2 - self.offset[2])

    def around(self, yaw: float) -> Vector:
        """Horizontal offset (2,) of its centre from the tool at ``yaw``."""
        return _turned(self.offset[:2], yaw)


@dataclass
class Memory:
    """What the policy remembers from one invocation to the next; measured state always wins over it."""

    reached: tuple[Thing, GraspPlan] | None = None
    held: Held | None = None
    place: Vector | None = None  # (3,) m, where the bottom of the held thing shall stand


@dataclass(frozen=True)
class Job:
    """What a family builds its session from."""

    invocation: Invocation
    observation: Observation
    world: World
    sight: Sight
    memory: Memory
    config: AnalyticConfig

    @property
    def tool(self) -> Vector:
        """Measured tool vector (7,)."""
        return tool_vector(self.observation.arm.ee)

    def thing(self, name: str, what: str) -> Thing:
        """The thing of that name, as seen, else where the invocation says it is.

        Raises:
            Rejected: not seen and no position given, or no name given.
        """
        found = self.world.find(name) if name else None
        if found is not None:
            return found
        position = self.invocation.position
        if position is None or not name:
            seen = ", ".join(thing.name for thing in self.world.things) or "nothing"
            raise Rejected(
                "not_in_view", f"the {what} {name or '(no name given)'!r} is not in view; seen: {seen}: look again or name another"
            )
        guess = self.sight.guess(name, position)
        return guess if what == "object" else replace(guess, center=np.array([*position[:2], guess.center[2]]))


def reach(job: Job) -> StagedSession:
    """Above the object, then down around it; the opening stays."""
    config, arm = job.config, job.observation.arm
    if arm.gripper_holding:
        raise Rejected("holding", f"the gripper holds something at {1e3 * arm.gripper_width:.0f} mm: release it first")
    thing = job.thing(job.invocation.object, "object")
    plan = plan_grasp(thing, job.world, config, job.tool)
    if arm.gripper_width < plan.width + 0.008:
        raise Rejected(
            "gripper_closed",
            f"the gripper is open {1e3 * arm.gripper_width:.0f} mm, {thing.name} needs {1e3 * (plan.width + 0.008):.0f} mm: open it",
        )
    aim = _Aim(job, thing, plan)
    leg = Leg("approach", 1.0, aim.waypoints, config, look=aim.look)
    return StagedSession([leg], config, lambda seen: _goal_numbers(leg.goal, seen), lambda seen: aim.remember())


class _Aim:
    """The goal of a reach; it follows the object when a second look shows it elsewhere."""

    def __init__(self, job: Job, thing: Thing, plan: GraspPlan) -> None:
        self._job = job
        self.thing = thing
        self.plan = plan
        job.memory.reached = None

    def waypoints(self, here: Vector) -> Sequence[Waypoint]:
        goal = downward(self.plan.position, self.plan.yaw, self.plan.tilt)
        return approach(here, goal, self._job.world, self._job.config)

    def look(self, observation: Observation) -> Vector | None:
        found = self._job.sight.again(observation, self.thing)
        if found is None:
            return None
        moved = found.center - self.thing.center
        if float(np.linalg.norm(moved)) > _SHIFT_MAX:
            return None
        if self.thing.is_bowl:  # the side of the rim stays
            plan = replace(self.plan, position=self.plan.position + moved)
        else:
            turn = wrap_angle(nearest_turn(found.yaw, self.thing.yaw, math.pi / 2) - self.thing.yaw)
            plan = replace(self.plan, position=self.plan.position + moved, yaw=self.plan.yaw + turn)
        shift = downward(plan.position, plan.yaw) - downward(self.plan.position, self.plan.yaw)
        self.thing, self.plan = found, plan
        return shift if float(np.linalg.norm(shift)) > _SHIFT_MIN else None

    def remember(self) -> None:
        self._job.memory.reached = (self.thing, self.plan)


def approach(here: Vector, goal: Vector, world: World, config: AnalyticConfig) -> list[Waypoint]:
    """From above to a goal near the table: up if needed, over, down."""
    shapes = config.shapes
    a, b = here[:2], goal[:2]
    fingers = world.highest_along(a, b, 0.03) + shapes.finger_reach + config.clearance
    hand = world.highest_along(a, b, shapes.hand_length) - shapes.hand_height + config.clearance
    height = max(fingers, hand, float(goal[2]) + 0.05)
    out = []
    if float(np.linalg.norm(b - a)) > 0.01 and here[2] < height:
        up = here.copy()
        up[2] = height
        out.append(Waypoint(up))
    over = goal.copy()
    over[2] = height
    if here[2] > height or float(np.linalg.norm(b - a)) > 0.01:
        out.append(Waypoint(over))
    out.append(Waypoint(goal, config.pace.speed * 0.8))
    return out


def grasp(job: Job) -> StagedSession:
    """Close, lift a little, and see whether it is still held."""
    config, arm, tool = job.config, job.observation.arm, job.tool
    thing, plan = _stands_around(job)
    if arm.gripper_holding:  # idempotent: what is held stays held
        return StagedSession([Keep("hold", 1.0)], config)

    def taken(seen: Observation) -> None:
        job.memory.held = _held(thing, plan, tool_vector(seen.arm.ee))
        job.memory.place = None

    def lifted(here: Vector) -> list[Waypoint]:
        up = here.copy()
        up[2] += config.lift
        return [Waypoint(up)]

    lift = Leg("lift", 0.5, lifted, config, must_hold=True)
    close = Close("close", 0.5, plan.width, on_done=taken)
    job.memory.reached = None
    start = float(tool[2])
    return StagedSession(
        [close, lift],
        config,
        lambda seen: {"lifted": float(seen.arm.ee.position[2]) - start, "gripper_width": seen.arm.gripper_width},
    )


def _stands_around(job: Job) -> tuple[Thing, GraspPlan]:
    """The object and the grasp that the gripper stands in."""
    name, tool = job.invocation.object, job.tool
    reached = job.memory.reached
    seen = job.world.find(name)
    if reached is not None and reached[0].name == name:
        thing, plan = reached
        near = float(np.linalg.norm(plan.position - tool[:3])) < _AROUND
        gone = seen is not None and float(np.linalg.norm(seen.center[:2] - thing.center[:2])) > 0.04 + thing.radius
        if near and not gone:
            return thing, plan
    if seen is None:  # the fingers may hide it: trust that the agent reached it
        thing = job.sight.guess(name, tool[:3] if job.invocation.position is None else job.invocation.position)
        offset = np.zeros(3) if not thing.is_bowl else np.array([thing.radius - 0.008, 0.0, -0.01])
        return thing, GraspPlan(tool[:3], float(tool[3]), offset, 0.9 * float(thing.size[0]) if not thing.is_bowl else 0.004)
    distance = float(np.linalg.norm(seen.center[:2] - tool[:2]))
    if distance > seen.radius + _AROUND:
        raise Rejected("not_around", f"{name} is {1e3 * distance:.0f} mm beside the gripper: reach it first, then grasp")
    width = job.config.shapes.bowl_wall if seen.is_bowl else float(seen.size[0])
    return seen, GraspPlan(tool[:3], float(tool[3]), seen.center - tool[:3], width)


def _held(thing: Thing, plan: GraspPlan, tool: Vector) -> Held:
    """Where the thing sits in the closed gripper: the fingers have centred it along the closing direction."""
    yaw = float(tool[3])
    offset = _turned(thing.center[:2] - tool[:2], -yaw)
    if thing.is_bowl:
        planned = _turned(plan.offset[:2], -plan.yaw)
        offset = np.array([offset[0], planned[1]])
    else:
        offset = np.array([offset[0], 0.0])
    return Held(thing, np.array([*offset, thing.center[2] - tool[2]]), wrap_angle(thing.yaw - yaw), plan.tilt)


def held_now(job: Job) -> Held:
    """What the gripper holds: remembered, else guessed from the name that the agent gives.

    Raises:
        Rejected: nothing is held.
    """
    arm, memory, name = job.observation.arm, job.memory, job.invocation.object
    if not arm.gripper_holding:
        memory.held = None
        raise Rejected(
            "not_holding", f"the gripper holds nothing (opening {1e3 * arm.gripper_width:.0f} mm): reach and grasp {name or 'it'} first"
        )
    if memory.held is not None and (not name or memory.held.thing.name == name or not memory.held.seen):
        return memory.held
    guess = job.sight.guess(name or "cube", job.tool[:3])
    if guess.is_bowl:
        # Only looking can tell on which side of the grip the bowl is.
        found = job.sight.held_bowl(job.observation, guess, job.tool)
        offset = _turned(found.center[:2] - job.tool[:2], -float(job.tool[3]))
        z = job.config.shapes.rim_depth - found.size[2] / 2
        return Held(found, np.array([*offset, z]), 0.0, float(job.tool[4]), seen=False)
    return Held(guess, np.zeros(3), 0.0, seen=False)


def move(job: Job) -> StagedSession:
    """Carry what is held to above its place, low enough to release it there."""
    config = job.config
    held = held_now(job)
    world = job.world.without(held.thing.name)
    job = replace(job, world=world)
    target = job.thing(job.invocation.target, "target") if job.invocation.target else None
    if target is None and job.invocation.position is None:
        raise Rejected("bad_argument", "move needs a target or a position: name where to")
    course = _Course(job, held, target)
    leg = Leg("carry", 1.0, course.waypoints, config, must_hold=True, look=course.look if target else None, look_share=0.4)
    job.memory.held = held
    job.memory.place = course.place
    return StagedSession([leg], config, lambda seen: _goal_numbers(leg.goal, seen) | {"place_z": float(course.place[2])})


class _Course:
    """The place of a move; it follows the target when a second look shows it elsewhere."""

    def __init__(self, job: Job, held: Held, target: Thing | None) -> None:
        self._job = job
        self._held = held
        self._target = target
        self.place = self._place()
        self._yaw = self._goal_yaw()

    def _place(self) -> Vector:
        """Point (3,) on which the bottom of the held thing shall rest."""
        target, world = self._target, self._job.world
        if target is None:
            assert self._job.invocation.position is not None
            return np.array(self._job.invocation.position)
        if target.is_bowl:
            inside = [t for t in world.things if t is not target and np.linalg.norm(t.center[:2] - target.center[:2]) < 0.04]
            floor = max([target.bottom + self._job.config.shapes.bowl_floor, *(t.top for t in inside)])
            return np.array([*target.center[:2], floor])
        return np.array([*target.center[:2], target.top])

    def _goal_yaw(self) -> float:
        yaw = float(self._job.tool[3])
        if self._target is None or self._target.is_bowl or self._held.thing.is_bowl:
            return yaw
        # Faces parallel to the faces of what it is put on.
        return nearest_turn(self._target.yaw - self._held.bearing, yaw, math.pi / 2)

    def goal(self) -> Vector:
        """Tool vector (7,) at the end."""
        config, held = self._job.config, self._held
        low = self.place[2] + config.hover
        if self._target is not None and self._target.is_bowl:
            low = max(low, self._target.top + 0.008)
        xy = self.place[:2] - held.around(self._yaw)
        return downward([*xy, low + held.below()], self._yaw, held.tilt)

    def waypoints(self, here: Vector) -> list[Waypoint]:
        config, held, world = self._job.config, self._held, self._job.world
        goal = self.goal()
        a, b = here[:2] + held.around(float(here[3])), goal[:2] + held.around(self._yaw)
        carried = world.highest_along(a, b, held.thing.radius) + config.clearance + held.below()
        fingers = world.highest_along(here[:2], goal[:2], 0.05) + config.clearance + config.shapes.finger_reach
        hand = world.highest_along(here[:2], goal[:2], config.shapes.hand_length) - config.shapes.hand_height + config.clearance
        height = max(carried, fingers, hand, float(goal[2]))
        out = []
        if here[2] < height - 0.005:
            up = here.copy()
            up[2] = height
            out.append(Waypoint(up))
        over = goal.copy()
        over[2] = max(height, min(float(here[2]), height + 0.05))
        out.append(Waypoint(over))
        out.append(Waypoint(goal, 0.5 * config.pace.speed))
        return out

    def look(self, observation: Observation) -> Vector | None:
        assert self._target is not None
        found = self._job.sight.again(observation, self._target)
        if found is None:
            return None
        moved = found.center[:2] - self._target.center[:2]
        if not _SHIFT_MIN < float(np.linalg.norm(moved)) < _SHIFT_MAX:
            return None
        self._target = replace(self._target, center=np.array([*found.center[:2], self._target.center[2]]))
        self.place = np.array([*found.center[:2], self.place[2]])
        self._job.memory.place = self.place
        return np.array([*moved, 0, 0, 0, 0, 0], dtype=float)


def release(job: Job) -> StagedSession:
    """Lower to the place, open as far as needed, go up, open fully."""
    config, arm = job.config, job.observation.arm
    if not arm.gripper_holding:
        return StagedSession([Open("open", 1.0, to=config.shapes.open_width)], config, on_met=lambda seen: _forget(job.memory))
    held = held_now(job)
    floor = _place_height(job, held)
    drop = float(job.tool[2]) - held.below() - floor

    def lower(here: Vector) -> list[Waypoint]:
        down = here.copy()
        down[2] -= max(0.0, drop - 0.001)
        return [Waypoint(down, config.pace.contact_speed)]

    def retreat(here: Vector) -> list[Waypoint]:
        up = here.copy()
        up[2] += config.retreat
        return [Waypoint(up)]

    stages: list[Stage] = [
        Leg("lower", 0.3, lower, config, stop_force=config.contact_force),
        Open("open", 0.3, by=config.release_margin, to=config.shapes.open_width),
        Leg("retreat", 0.3, retreat, config, reopen=config.shapes.open_width),
        Open("clear", 0.1, to=config.shapes.open_width),
    ]
    return StagedSession(
        stages, config, lambda seen: {"gripper_width": seen.arm.gripper_width, "drop": drop}, lambda seen: _forget(job.memory)
    )


def _place_height(job: Job, held: Held) -> float:
    """Height of what the held thing is let down on, m: remembered from the move, given, seen, or the table."""
    center = job.tool[:2] + held.around(float(job.tool[3]))
    bottom = float(job.tool[2]) - held.below()
    for place in (job.memory.place, job.invocation.position):
        if place is not None and float(np.linalg.norm(place[:2] - center)) < 0.03 and place[2] <= bottom + 0.02:
            return float(place[2])
    return min(bottom, job.world.without(held.thing.name).support_under(center, held.thing.radius))


def _forget(memory: Memory) -> None:
    memory.held = memory.place = memory.reached = None


def _goal_numbers(goal: Vector, seen: Observation) -> dict[str, float]:
    distance = float(np.linalg.norm(seen.arm.ee.position - goal[:3]))
    return {"goal_x": float(goal[0]), "goal_y": float(goal[1]), "goal_z": float(goal[2]), "distance": distance}


def _turned(xy: Vector, angle: float) -> Vector:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([c * xy[0] - s * xy[1], s * xy[0] + c * xy[1]])
