"""move and release: carry what is held to above its place; let it down, open, go up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Rejected
from vlatools.policy.analytic.job import SHIFT_MAX, SHIFT_MIN, Held, Job, Memory, goal_numbers, held_now
from vlatools.policy.analytic.path import downward, nearest_turn
from vlatools.policy.analytic.session import StagedSession
from vlatools.policy.analytic.stages import Leg, Look, Open, Stage, Waypoint
from vlatools.policy.analytic.world import Thing
from vlatools.policy.ports import Observation

Vector = NDArray[np.float64]

_MOVED = 0.012  # m: nearer to the held thing the target is seen less well; only a larger shift is real
_RISE = 0.10  # m: from so much higher a hidden target is seen


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
    leg = Leg("carry", 0.9, course.waypoints, config, must_hold=True, look=course.look if target else None, look_share=0.4)
    job.memory.held = held
    job.memory.place = course.place
    stages: list[Stage] = [leg]
    if target is not None and target.seen:
        stages.append(Look("look", 0.1, course.correct))
    return StagedSession(stages, config, lambda seen: goal_numbers(course.goal(), seen) | {"place_z": float(course.place[2])})


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
        """Shift of the goal (7,) when the target is seen elsewhere on the way."""
        found = self._again(observation)
        return self._follow(found, SHIFT_MIN) if found is not None else None

    def correct(self, observation: Observation) -> list[Stage]:
        """A last look, from above the target: another leg if it was moved meanwhile, a clearer view if it is hidden."""
        found = self._again(observation)
        if found is None:
            rise = Leg("rise", 0.05, self._rise, self._job.config, must_hold=True)
            return [rise, Look("look", 0.05, self._correct_from_above)]
        return self._leg() if self._follow(found, _MOVED) is not None else []

    def _correct_from_above(self, observation: Observation) -> list[Stage] | str:
        found = self._again(observation)
        if found is None:
            assert self._target is not None
            return f"the {self._target.name} is no longer in view: look again"
        self._follow(found, SHIFT_MIN)
        return self._leg()

    def _leg(self) -> list[Stage]:
        return [Leg("correct", 0.1, self.waypoints, self._job.config, must_hold=True)]

    def _rise(self, here: Vector) -> list[Waypoint]:
        up = here.copy()
        up[2] += _RISE
        return [Waypoint(up)]

    def _again(self, observation: Observation) -> Thing | None:
        assert self._target is not None
        return self._job.sight.again(observation, self._target)

    def _follow(self, found: Thing, least: float) -> Vector | None:
        """Follow the target to where it was found; the shift (7,), None where it is too small or too large to be real."""
        assert self._target is not None
        moved = found.center[:2] - self._target.center[:2]
        if not least < float(np.linalg.norm(moved)) < SHIFT_MAX:
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
