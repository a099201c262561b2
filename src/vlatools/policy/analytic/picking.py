"""reach and grasp: above the object and down around it; close, lift, and see whether it is held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Rejected
from vlatools.core.pose import wrap_angle
from vlatools.policy.analytic.job import SHIFT_MAX, SHIFT_MIN, Held, Job, approach, goal_numbers, turned
from vlatools.policy.analytic.path import downward, nearest_turn, tool_vector
from vlatools.policy.analytic.session import StagedSession
from vlatools.policy.analytic.stages import Close, Keep, Leg, Waypoint
from vlatools.policy.analytic.world import GraspPlan, Thing, plan_grasp
from vlatools.policy.ports import Observation

Vector = NDArray[np.float64]

_AROUND = 0.03  # m: the tool stands around a thing when it is this near to its grasp


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
    return StagedSession([leg], config, lambda seen: goal_numbers(leg.goal, seen), lambda seen: aim.remember())


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
        if float(np.linalg.norm(moved)) > SHIFT_MAX:
            return None
        if self.thing.is_bowl:  # the side of the rim stays
            plan = replace(self.plan, position=self.plan.position + moved)
        else:
            turn = wrap_angle(nearest_turn(found.yaw, self.thing.yaw, math.pi / 2) - self.thing.yaw)
            plan = replace(self.plan, position=self.plan.position + moved, yaw=self.plan.yaw + turn)
        shift = downward(plan.position, plan.yaw) - downward(self.plan.position, self.plan.yaw)
        self.thing, self.plan = found, plan
        return shift if float(np.linalg.norm(shift)) > SHIFT_MIN else None

    def remember(self) -> None:
        self._job.memory.reached = (self.thing, self.plan)


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
    offset = turned(thing.center[:2] - tool[:2], -yaw)
    if thing.is_bowl:
        planned = turned(plan.offset[:2], -plan.yaw)
        offset = np.array([offset[0], planned[1]])
    else:
        offset = np.array([offset[0], 0.0])
    return Held(thing, np.array([*offset, thing.center[2] - tool[2]]), wrap_angle(thing.yaw - yaw), plan.tilt)
