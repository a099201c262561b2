"""What a family builds its session from: the scene, what the gripper holds, what is remembered."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Invocation, Rejected
from vlatools.policy.analytic.config import AnalyticConfig
from vlatools.policy.analytic.path import tool_vector
from vlatools.policy.analytic.sight import Sight
from vlatools.policy.analytic.stages import Waypoint
from vlatools.policy.analytic.world import GraspPlan, Thing, World
from vlatools.policy.ports import Observation

Vector = NDArray[np.float64]

SHIFT_MIN, SHIFT_MAX = 0.001, 0.20  # m: a smaller shift of a goal is noise, a larger one is another thing


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
        return turned(self.offset[:2], yaw)


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
        offset = turned(found.center[:2] - job.tool[:2], -float(job.tool[3]))
        z = job.config.shapes.rim_depth - found.size[2] / 2
        return Held(found, np.array([*offset, z]), 0.0, float(job.tool[4]), seen=False)
    return Held(guess, np.zeros(3), 0.0, seen=False)


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


def goal_numbers(goal: Vector, seen: Observation) -> dict[str, float]:
    distance = float(np.linalg.norm(seen.arm.ee.position - goal[:3]))
    return {"goal_x": float(goal[0]), "goal_y": float(goal[1]), "goal_z": float(goal[2]), "distance": distance}


def turned(xy: Vector, angle: float) -> Vector:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([c * xy[0] - s * xy[1], s * xy[0] + c * xy[1]])
