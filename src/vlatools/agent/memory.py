"""What the agent remembers of the objects: who is who over time, where each one was first and last seen."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vlatools.perception.ports import DetectedObject, Scene

Point = NDArray[np.float64]
_SIDES = ("left", "middle", "right")
MAX_PERMUTED = 6  # equal objects that are matched exhaustively


@dataclass(frozen=True)
class Tracked:
    """One object over time.

    Attributes:
        id: the agent's name for it: its name in the scene in which it was first seen.
        category, color: as perceived.
        size: extents (3,) in metres.
        start: centre (3,) in fr3_link0 where it was first seen.
        position: centre (3,) where it was last seen.
        first_s: monotonic time of the first sighting.
        seen_s: monotonic time of the last sighting.
        visible: it is in the newest scene.
    """

    id: str
    category: str
    color: str
    size: Point
    start: Point
    position: Point
    first_s: float
    seen_s: float
    visible: bool

    @property
    def top(self) -> float:
        """Height of its top, metres."""
        return float(self.position[2] + self.size[2] / 2)

    @property
    def bottom(self) -> float:
        """Height of its underside, metres."""
        return float(self.position[2] - self.size[2] / 2)

    @property
    def radius(self) -> float:
        """Half of its larger horizontal extent, metres."""
        return float(max(self.size[0], self.size[1]) / 2)


@dataclass(frozen=True)
class Memory:
    """All objects seen since the task began. Updated by making a new one."""

    objects: tuple[Tracked, ...]
    first_s: float
    latest_s: float

    @staticmethod
    def begin(scene: Scene) -> Memory:
        """Memory of the first observation: what is seen now is where things *were* later on."""
        return Memory(
            tuple(_new(item, item.name, scene.stamp_s) for item in scene.objects), scene.stamp_s, scene.stamp_s
        )

    def get(self, name: str) -> Tracked | None:
        """The object with that id."""
        return next((item for item in self.objects if item.id == name), None)

    def __getitem__(self, name: str) -> Tracked:
        found = self.get(name)
        if found is None:
            raise KeyError(f"no object {name!r} in memory, there are {[item.id for item in self.objects]}")
        return found

    def name(self, id_: str) -> str:
        """What perception calls the object now: equal objects are named by where they stand, left to right.

        An id that stopped being true ("left bowl" once it stands on the right) is translated by this.
        """
        item = self[id_]
        peers = [
            other
            for other in self.objects
            if (other.category, other.color) == (item.category, item.color)
            and (other.id == id_ or other.visible or other.first_s == self.first_s)
        ]
        base = f"{item.color} {item.category}".strip()
        if len(peers) == 1:
            return base
        order = sorted(peers, key=lambda other: -other.position[1])
        index = next(i for i, other in enumerate(order) if other.id == id_)
        if len(peers) > len(_SIDES):
            return f"{base} {index + 1}"
        sides = _SIDES if len(peers) == len(_SIDES) else (_SIDES[0], _SIDES[-1])
        return f"{sides[index]} {base}"

    def update(self, scene: Scene, expected: Mapping[str, Point] | None = None) -> Memory:
        """Memory after another observation.

        Args:
            scene: what is seen now.
            expected: where objects are expected instead of where they were last seen (a held or just placed one).
        """
        updated = {item.id: replace(item, visible=False) for item in self.objects}
        for kind in sorted({(item.category, item.color) for item in scene.objects}):
            seen = [item for item in scene.objects if (item.category, item.color) == kind]
            known = [item for item in self.objects if (item.category, item.color) == kind]
            for detected, match in _match(seen, known, expected or {}):
                if match is None:
                    name = detected.name
                    while name in updated:
                        name = f"another {name}"
                    updated[name] = _new(detected, name, scene.stamp_s)
                else:
                    updated[match.id] = replace(
                        match,
                        size=detected.size,
                        position=detected.pose.position,
                        seen_s=scene.stamp_s,
                        visible=True,
                    )
        return replace(self, objects=tuple(updated.values()), latest_s=scene.stamp_s)

    def describe(self) -> str:
        """What is seen, for messages: 'blue cube (0.44, 0.15), ...'."""
        parts = [f"{o.id} ({o.position[0]:.2f}, {o.position[1]:.2f})" for o in self.objects if o.visible]
        return ", ".join(parts) if parts else "nothing"


def _new(detected: DetectedObject, name: str, stamp_s: float) -> Tracked:
    return Tracked(
        id=name,
        category=detected.category,
        color=detected.color,
        size=np.asarray(detected.size, dtype=float),
        start=detected.pose.position,
        position=detected.pose.position,
        first_s=stamp_s,
        seen_s=stamp_s,
        visible=True,
    )


def _match(
    seen: list[DetectedObject], known: list[Tracked], expected: Mapping[str, Point]
) -> list[tuple[DetectedObject, Tracked | None]]:
    """Pair equal-looking objects so that the sum of distances to where they are expected is least."""
    if len(seen) == 1 and len(known) == 1:
        return [(seen[0], known[0])]

    def cost(detected: DetectedObject, item: Tracked) -> float:
        places = [item.position] + ([expected[item.id]] if item.id in expected else [])
        return float(min(np.linalg.norm(detected.pose.position - place) for place in places))

    seen, extra = seen[:MAX_PERMUTED], seen[MAX_PERMUTED:]
    slots: list[Tracked | None] = [*known[:MAX_PERMUTED], *[None] * max(0, len(seen) - len(known))]
    best = min(
        itertools.permutations(slots, len(seen)),
        key=lambda choice: sum(cost(d, k) if k is not None else 0.0 for d, k in zip(seen, choice, strict=True)),
        default=(),
    )
    return [*zip(seen, best, strict=True), *((item, None) for item in extra)]
