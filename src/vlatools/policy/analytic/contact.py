"""push, pull and rotate: families that move an object while it stays on the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Rejected
from vlatools.core.pose import wrap_angle
from vlatools.policy.analytic.job import Job, approach
from vlatools.policy.analytic.path import downward, tool_vector
from vlatools.policy.analytic.session import StagedSession
from vlatools.policy.analytic.stages import Close, Leg, Look, Open, Stage, Waypoint
from vlatools.policy.analytic.world import GraspPlan, Thing, plan_grasp
from vlatools.policy.ports import Observation

Vector = NDArray[np.float64]

_FINGER_HALF = 0.011  # m, of closed fingers across the closing direction
_STAND_OFF = 0.03  # m, between fingers and object before contact
_NEAR_ENOUGH = 0.012  # m, of the object from its goal
_YAW_MAX = 1.9  # rad, keeps the wrist in its range


def push(job: Job) -> StagedSession:
    """Closed fingers behind the object, forward to the place, back and up, look; again if it fell short."""
    thing, goal = _displacement(job)
    config = job.config
    opening = job.observation.arm.gripper_width
    run = _Displaced(job, thing, goal)

    def strokes(now: Thing) -> list[Stage]:
        way = goal - now.center[:2]
        forward = way / max(1e-6, float(np.linalg.norm(way)))
        yaw = math.remainder(math.atan2(forward[1], forward[0]), math.pi)
        reach_back = _half_along(now, forward) + _FINGER_HALF
        height = max(0.016, min(float(now.center[2]), 0.03))

        def tool_at(point: Vector) -> Vector:
            return downward([*point, height], yaw)

        behind = tool_at(now.center[:2] - forward * (reach_back + _STAND_OFF))
        end = tool_at(goal - forward * reach_back)
        back = tool_at(goal - forward * (reach_back + _STAND_OFF))
        up = back.copy()
        up[2] += 0.15
        speed = config.pace.contact_speed
        return [
            Leg("approach", 0.3, lambda here: approach(here, behind, job.world, config), config),
            Leg("push", 0.4, lambda here: [Waypoint(end, speed)], config),
            Leg("back off", 0.1, lambda here: [Waypoint(back), Waypoint(up)], config),
            Look("look", 0.1, lambda seen: run.judge(seen, strokes)),
        ]

    stages = [Close("close", 0.1, 0.0, empty=True), *strokes(thing), Open("open", 0.05, to=max(opening, 0.02))]
    return StagedSession(stages, config, run.numbers)


def pull(job: Job) -> StagedSession:
    """Take hold of the object, draw it along the table to the place, let go, go up, look."""
    thing, goal = _displacement(job)
    config = job.config
    plan = plan_grasp(thing, job.world, config, job.tool)
    _require_open(job, thing, plan)
    run = _Displaced(job, thing, goal)
    drawn = downward([*(goal - plan.offset[:2]), plan.position[2] + 0.001], plan.yaw, plan.tilt)
    stages: list[Stage] = [
        *_take(job, plan),
        Leg("draw", 0.4, lambda here: [Waypoint(drawn, 0.15)], config, must_hold=True),
        *_let_go(job),
        Look("look", 0.05, lambda seen: run.judge(seen, None)),
    ]
    return StagedSession(stages, config, run.numbers)


def rotate(job: Job) -> StagedSession:
    """Take hold of the object and turn it about the vertical through its centre, let go, go up."""
    angle = job.invocation.angle
    if angle is None:
        raise Rejected("bad_argument", "rotate needs an angle in radians: give it")
    if job.observation.arm.gripper_holding:
        raise Rejected("holding", "the gripper holds something: release it first")
    config = job.config
    thing = job.thing(job.invocation.object, "object")
    plan = _turnable(plan_grasp(thing, job.world, config, job.tool), thing, angle)
    _require_open(job, thing, plan)
    start_yaw = [math.nan]
    turned = [math.nan]

    def about_center(here: Vector) -> list[Waypoint]:
        start_yaw[0] = float(here[3])
        center = plan.position[:2] + plan.offset[:2]
        arm = here[:2] - center
        steps = max(1, math.ceil(abs(angle) / 0.35)) if thing.is_bowl else 1
        out = []
        for i in range(1, steps + 1):
            part = angle * i / steps
            c, s = math.cos(part), math.sin(part)
            xy = center + np.array([c * arm[0] - s * arm[1], s * arm[0] + c * arm[1]])
            out.append(Waypoint(downward([*xy, here[2]], start_yaw[0] + part, float(here[4]))))
        return out

    def numbers(seen: Observation) -> dict[str, float]:
        if math.isfinite(start_yaw[0]) and seen.arm.gripper_holding:
            turned[0] = wrap_angle(tool_vector(seen.arm.ee)[3] - start_yaw[0])
        return {"turned": turned[0], "angle_error": wrap_angle(turned[0] - angle) if math.isfinite(turned[0]) else math.nan}

    stages = [*_take(job, plan), Leg("turn", 0.4, about_center, config, must_hold=True), *_let_go(job)]
    return StagedSession(stages, config, numbers)


class _Displaced:
    """Where the object is, as last seen, against where it shall be."""

    def __init__(self, job: Job, thing: Thing, goal: Vector) -> None:
        self._job = job
        self._thing = thing
        self._goal = goal
        self._error = math.nan
        self._left = job.config.max_corrections

    def judge(self, seen: Observation, again: Callable[[Thing], list[Stage]] | None) -> Sequence[Stage]:
        """Measure; more stages when it fell short and another try is left."""
        found = self._job.sight.again(seen, self._thing)
        if found is None:
            return ()
        self._error = float(np.linalg.norm(found.center[:2] - self._goal))
        if self._error <= _NEAR_ENOUGH or again is None or self._left == 0:
            return ()
        self._left -= 1
        self._thing = replace(self._thing, center=found.center, yaw=found.yaw)
        return again(self._thing)

    def numbers(self, seen: Observation) -> dict[str, float]:
        """What was measured."""
        return {"object_error": self._error}


def _displacement(job: Job) -> tuple[Thing, Vector]:
    position = job.invocation.position
    if position is None:
        raise Rejected("bad_argument", f"{job.invocation.family.value} needs a position: give where the object shall go")
    if job.observation.arm.gripper_holding:
        raise Rejected("holding", "the gripper holds something: release it first")
    thing = job.world.find(job.invocation.object)
    if thing is None:
        seen = ", ".join(t.name for t in job.world.things) or "nothing"
        raise Rejected("not_in_view", f"the object {job.invocation.object!r} is not in view; seen: {seen}: look again")
    return thing, np.array(position[:2])


def _half_along(thing: Thing, direction: Vector) -> float:
    """Half extent of the thing along a direction (2,), m."""
    if thing.is_bowl:
        return thing.radius
    turn = math.atan2(direction[1], direction[0]) - thing.yaw
    return 0.5 * (abs(math.cos(turn)) * float(thing.size[0]) + abs(math.sin(turn)) * float(thing.size[1]))


def _require_open(job: Job, thing: Thing, plan: GraspPlan) -> None:
    width = job.observation.arm.gripper_width
    if width < plan.width + 0.008:
        raise Rejected(
            "gripper_closed",
            f"the gripper is open {1e3 * width:.0f} mm, {thing.name} needs {1e3 * (plan.width + 0.008):.0f} mm: open it",
        )


def _take(job: Job, plan: GraspPlan) -> list[Stage]:
    goal = downward(plan.position, plan.yaw, plan.tilt)
    return [
        Leg("approach", 0.3, lambda here: approach(here, goal, job.world, job.config), job.config),
        Close("close", 0.1, plan.width),
    ]


def _let_go(job: Job) -> list[Stage]:
    config = job.config

    def retreat(here: Vector) -> list[Waypoint]:
        up = here.copy()
        up[2] += 0.15
        return [Waypoint(up)]

    return [
        Open("open", 0.1, by=config.release_margin, to=config.shapes.open_width),
        Leg("retreat", 0.1, retreat, config, reopen=config.shapes.open_width),
        Open("clear", 0.05, to=config.shapes.open_width),
    ]


def _turnable(plan: GraspPlan, thing: Thing, angle: float) -> GraspPlan:
    """The grasp turned by quarter turns (half turns at a rim) so that the wrist can turn on by ``angle``."""
    period = math.pi if thing.is_bowl else math.pi / 2
    yaws = [math.remainder(plan.yaw + i * period, 2 * math.pi) for i in range(4)]
    fits = [yaw for yaw in yaws if abs(yaw) <= _YAW_MAX and abs(yaw + angle) <= _YAW_MAX]
    if not fits:
        raise Rejected(
            "bad_argument", f"the wrist cannot turn by {angle:.2f} rad from any grasp: ask for at most {_YAW_MAX:.1f} rad at a time"
        )
    return replace(plan, yaw=min(fits, key=lambda yaw: abs(yaw + angle / 2)))
