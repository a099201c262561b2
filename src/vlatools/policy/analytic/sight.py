"""Looking: from a camera frame to the world of the policy, and to one thing again."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Rejected
from vlatools.policy.analytic.config import AnalyticConfig
from vlatools.policy.analytic.world import SceneFinder, Thing, World, thing_of
from vlatools.policy.ports import Observation

Vector = NDArray[np.float64]


class Sight:
    """Looks through a locator."""

    def __init__(self, finder: SceneFinder, config: AnalyticConfig) -> None:
        self._finder = finder
        self._config = config

    def world(self, observation: Observation, names: tuple[str, ...] = ()) -> World:
        """Everything that is seen, and ``names`` under these names even if perception would now call them otherwise."""
        frame = observation.frame
        if frame is None:
            return World((), self._config.shapes)
        scene = self._finder.locate(frame, observation.camera_to_base)
        found = [thing_of(o) for o in scene.objects if o.confidence >= self._config.min_confidence]
        missing = [name for name in names if name and all(thing.name != name for thing in found)]
        if missing:
            asked = self._finder.locate(frame, observation.camera_to_base, missing)
            for thing in (thing_of(o) for o in asked.objects if o.confidence >= self._config.min_confidence):
                found = [t for t in found if float(np.linalg.norm(t.center - thing.center)) > 1e-6] + [thing]
        return World(tuple(found), self._config.shapes)

    def again(self, observation: Observation, thing: Thing) -> Thing | None:
        """The same thing in a later frame, or None when it is not seen surely enough."""
        if observation.frame is None:
            return None
        scene = self._finder.locate(observation.frame, observation.camera_to_base)
        alike = [thing_of(o) for o in scene.objects if o.confidence >= max(0.5, self._config.min_confidence)]
        named = [other for other in alike if other.name == thing.name]
        # Left and right may have changed hands: of equal things it is the nearest.
        near = [o for o in alike if o.category == thing.category and _between(o, thing) < 0.04] if thing.is_bowl else []
        best = near or named
        if not best:
            return None
        found = min(best, key=lambda other: _between(other, thing))
        return Thing(thing.name, found.category, found.center, found.yaw, found.size)

    def guess(self, name: str, position: Vector) -> Thing:
        """A thing of usual size at ``position`` (3,), by the category in its name."""
        shapes = self._config.shapes
        if "bowl" in name:
            size = np.array([2 * shapes.bowl_radius, 2 * shapes.bowl_radius, shapes.bowl_height])
            return Thing(name, "bowl", np.array(position, dtype=float), 0.0, size, seen=False)
        return Thing(name, "cube", np.array(position, dtype=float), 0.0, np.full(3, shapes.cube_size), seen=False)

    def held_bowl(self, observation: Observation, guess: Thing, tool: Vector) -> Thing:
        """The bowl whose rim the gripper holds.

        Raises:
            Rejected: no bowl is seen near the gripper.
        """
        scene = self.world(observation)
        near = [t for t in scene.things if t.is_bowl and abs(math.dist(t.center[:2], tool[:2]) - guess.radius) < 0.03]
        if not near:
            raise Rejected("not_in_view", f"the held {guess.name} is not in view: release it and grasp it again")
        return min(near, key=lambda t: abs(math.dist(t.center[:2], tool[:2]) - guess.radius))


def _between(a: Thing, b: Thing) -> float:
    return float(np.linalg.norm(a.center - b.center))
