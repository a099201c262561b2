"""Where every object rests, as seen and then as the goals will leave it; and where there is room."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from vlatools.agent.effects import EffectTolerances, is_in_bowl, is_on_top
from vlatools.agent.memory import Memory, Tracked
from vlatools.agent.plan import Place, PlaceKind
from vlatools.core import ConfigError

Point3 = tuple[float, float, float]
FREE_PLACE = "to a free place on the table"


@dataclass(frozen=True)
class TableConfig:
    """The part of the table that objects may be put on, metres in fr3_link0.

    Attributes:
        x, y: lower and upper bound of an object's centre.
        height: z of the table top.
        gap: free distance kept around a place that the planner chooses itself, room for the fingers.
        overlap: how far footprints may overlap before a place counts as taken: cubes are round here.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, not a field

    x: tuple[float, float] = (0.32, 0.66)
    y: tuple[float, float] = (-0.22, 0.22)
    height: float = 0.0
    gap: float = 0.04
    overlap: float = 0.01

    def __post_init__(self) -> None:
        for key in ("x", "y"):
            low, high = getattr(self, key)
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ConfigError(f"{key} is [{low}, {high}], the first must be below the second: swap them")
        for key in ("gap", "overlap"):
            value = getattr(self, key)
            if not (math.isfinite(value) and 0 <= value <= 0.2):
                raise ConfigError(f"{key} is {value} m, it must be 0 to 0.2: change it")


class Layout:
    """A symbolic table: each object at a point, on another, or in a bowl. Goals are played on it first."""

    def __init__(
        self, memory: Memory, table: TableConfig, tolerances: EffectTolerances, *, first: bool = False
    ) -> None:
        """``first``: as things stood when the task began instead of as they were last seen."""
        self._memory = memory
        self._table = table
        items = memory.objects if not first else tuple(_at_start(item) for item in memory.objects)
        self._place = {item.id: self._seen_place(item, items, tolerances) for item in items}

    def _seen_place(self, item: Tracked, items: Iterable[Tracked], tolerances: EffectTolerances) -> Place:
        for other in items:
            if is_in_bowl(item, other, tolerances):
                return Place(PlaceKind.IN, other.id)
        for other in items:
            if is_on_top(item, other, tolerances):
                return Place(PlaceKind.ON, other.id)
        point = (float(item.position[0]), float(item.position[1]), self._table.height)
        return Place(PlaceKind.AT, point=point)

    def place(self, name: str) -> Place:
        """Where the object rests."""
        return self._place[name]

    def put(self, name: str, place: Place) -> None:
        """Play a goal."""
        self._place[name] = place

    def on(self, name: str) -> list[str]:
        """What lies on or in the object."""
        return [other for other, place in self._place.items() if place.target == name]

    def point(self, name: str) -> Point3:
        """(x, y, table height) below the object, through whatever it rests on."""
        seen = {name}
        place = self._place[name]
        while place.point is None and place.target in self._place and place.target not in seen:
            seen.add(place.target)
            place = self._place[place.target]
        if place.point is None:
            raise ValueError(f"the {name} rests on itself: {seen}")
        return place.point

    def blockers(self, name: str, place: Place) -> list[str]:
        """What must go away before the object can rest there: the occupants of a point, or what lies on a support."""
        if place.kind is PlaceKind.IN:
            return []
        if place.kind is PlaceKind.ON:
            return [other for other in self.on(place.target) if other != name]
        assert place.point is not None
        mine = self._memory[name].radius
        # What lies in the object itself travels with it.
        standing = [item for item in self._memory.objects if item.id != name and self._place[item.id].target != name]
        return [
            item.id
            for item in standing
            if self._place[item.id].kind is PlaceKind.AT
            and math.dist(self.point(item.id)[:2], place.point[:2]) < mine + item.radius - self._table.overlap
        ]

    def beside(self, name: str, other: str, direction: tuple[float, float]) -> Place | None:
        """A place next to ``other`` in a horizontal direction, or None when it is taken or outside the table."""
        distance = self._memory[name].radius + self._memory[other].radius + self._table.gap
        x, y, _ = self.point(other)
        place = Place(
            PlaceKind.AT, point=(x + direction[0] * distance, y + direction[1] * distance, self._table.height)
        )
        assert place.point is not None
        inside = (
            self._table.x[0] <= place.point[0] <= self._table.x[1]
            and self._table.y[0] <= place.point[1] <= self._table.y[1]
        )
        return place if inside and not self.blockers(name, place) else None

    def free_place(self, name: str, reserved: Iterable[Point3] = ()) -> Place | None:
        """The free place on the table nearest to where the object is, away from ``reserved`` points; None if full."""
        x0, y0, _ = self.point(name)
        mine = self._memory[name].radius
        taken = [
            (self.point(item.id)[:2], item.radius)
            for item in self._memory.objects
            if item.id != name and self._place[item.id].target != name
        ]
        taken += [(point[:2], mine) for point in reserved]
        best: Place | None = None
        best_distance = math.inf
        for x in np.arange(self._table.x[0], self._table.x[1] + 1e-9, 0.02):
            for y in np.arange(self._table.y[0], self._table.y[1] + 1e-9, 0.02):
                distance = math.hypot(x - x0, y - y0)
                if distance < best_distance and all(
                    math.dist((x, y), centre) >= mine + radius + self._table.gap for centre, radius in taken
                ):
                    best_distance = distance
                    best = Place(PlaceKind.AT, point=(float(x), float(y), self._table.height), words=FREE_PLACE)
        return best


def _at_start(item: Tracked) -> Tracked:
    return replace(item, position=item.start)
