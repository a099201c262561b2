"""Names of things: what a prompt asks for, and unique names for what was seen. Left is +y in fr3_link0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vlatools.perception.ports import DetectedObject

_CATEGORY_WORDS = {
    "cube": "cube",
    "cubes": "cube",
    "block": "cube",
    "blocks": "cube",
    "bowl": "bowl",
    "bowls": "bowl",
}
_SIDES = ("left", "middle", "right")
_FILLERS = ("the", "a", "an", "one", "object", "thing")
CATEGORIES = ("cube", "bowl")


@dataclass(frozen=True)
class Query:
    """What a prompt names; "" where it leaves something open.

    Attributes:
        side: ``left``, ``middle`` or ``right`` among equals.
        color: colour name.
        category: ``cube``, ``bowl``, or the words that are left.
    """

    side: str
    color: str
    category: str

    @property
    def known(self) -> bool:
        """Whether geometry knows the category (or any category is meant)."""
        return self.category in ("", *CATEGORIES)


def parse(prompt: str, colors: Iterable[str]) -> Query:
    """Read a prompt such as ``the left red cube``."""
    names = set(colors)
    side = color = category = ""
    rest = []
    for word in prompt.lower().replace("-", " ").replace("_", " ").split():
        if word in _SIDES and not side:
            side = word
        elif word in names and not color:
            color = word
        elif word in _CATEGORY_WORDS and not category:
            category = _CATEGORY_WORDS[word]
        elif word not in _FILLERS:
            rest.append(word)
    return Query(side, color, " ".join([*rest, category]).strip() if rest else category)


def pick_side(side: str, ys: Sequence[float]) -> int | None:
    """Index of the left (largest y), middle or right one; None if there is no such one.

    A single thing is left or right by the sign of its y: the other may be hidden.
    """
    order = sorted(range(len(ys)), key=lambda i: -ys[i])
    if not order:
        return None
    if len(order) == 1:
        only = order[0]
        return only if (side == "left" and ys[only] > 0) or (side == "right" and ys[only] < 0) else None
    if side == "middle":
        return order[len(order) // 2] if len(order) % 2 else None
    return order[0] if side == "left" else order[-1]


def assign(objects: Iterable[DetectedObject]) -> tuple[DetectedObject, ...]:
    """Give unique names, sorted by name: ``red cube``; ``left bowl`` and ``right bowl`` for two equal ones;
    ``left``, ``middle`` and ``right`` for three; numbers from left to right for more."""
    groups: dict[str, list[DetectedObject]] = {}
    for thing in objects:
        groups.setdefault(f"{thing.color} {thing.category}".strip(), []).append(thing)
    named = []
    for base, group in groups.items():
        group.sort(key=lambda thing: -thing.pose.position[1])
        if len(group) == 1:
            labels = [base]
        elif len(group) <= len(_SIDES):
            sides = _SIDES if len(group) == len(_SIDES) else (_SIDES[0], _SIDES[-1])
            labels = [f"{side} {base}" for side in sides]
        else:
            labels = [f"{base} {i}" for i in range(1, len(group) + 1)]
        named += [replace(thing, name=label) for thing, label in zip(group, labels, strict=True)]
    return tuple(sorted(named, key=lambda thing: thing.name))


def match(query: Query, objects: Sequence[DetectedObject]) -> list[DetectedObject]:
    """Objects that a query names; with a side at most one."""
    found = [thing for thing in objects if query.color in ("", thing.color) and query.category in ("", thing.category)]
    if not query.side:
        return found
    index = pick_side(query.side, [float(thing.pose.position[1]) for thing in found])
    return [] if index is None else [found[index]]
