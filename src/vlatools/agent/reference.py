"""From a noun phrase to the object that is meant, among those that are seen."""

from __future__ import annotations

from vlatools.agent.goals import ObjectRef, Side
from vlatools.agent.memory import Memory, Tracked
from vlatools.core import Rejected


def resolve(ref: ObjectRef, memory: Memory) -> Tracked:
    """The one object that ``ref`` means, by where things stood when the task began.

    Raises:
        Rejected: ``unknown_object`` (nothing fits) or ``ambiguous`` (several fit, or the side cannot be told).
    """
    found = _candidates(ref, memory)
    if ref.side is None:
        if len(found) > 1:
            names = ", ".join(item.id for item in found)
            raise Rejected("ambiguous", f"'{ref}' may be any of {names}: say which, by colour, left or right")
        return found[0]
    if len(found) > 1:
        return _by_side(ref.side, found)
    # One object fits without its side: the side must be true of it among its likes.
    item = found[0]
    peers = [other for other in memory.objects if other.category == item.category]
    if len(peers) == 1:
        if ref.color:
            return item
        raise Rejected(
            "ambiguous",
            f"'{ref}': only one {item.category} is seen, {memory.describe()}: say 'the {item.category}' if it is meant",
        )
    if not _is_on_side(ref.side, item, peers):
        raise Rejected(
            "ambiguous",
            f"'{ref}': the {item.id} does not stand {ref.side.value} among {memory.describe()}: say which is meant",
        )
    return item


def resolve_all(ref: ObjectRef, memory: Memory) -> list[Tracked]:
    """All objects that ``ref`` means ("both cubes"), from left to right; one unless ``ref.all``."""
    if not ref.all:
        return [resolve(ref, memory)]
    return sorted(_candidates(ref, memory), key=lambda item: -item.start[1])


def _candidates(ref: ObjectRef, memory: Memory) -> list[Tracked]:
    found = [
        item
        for item in memory.objects
        if (not ref.category or item.category == ref.category) and (not ref.color or item.color == ref.color)
    ]
    if not ref.category:  # "the red one": a cube rather than a bowl of that colour
        found = [item for item in found if item.category == "cube"] or found
    if not found:
        raise Rejected("unknown_object", f"'{ref}' is not seen; seen: {memory.describe()}")
    return found


def _by_side(side: Side, found: list[Tracked]) -> Tracked:
    ordered = sorted(found, key=lambda item: -item.start[1])
    if side is Side.MIDDLE:
        if len(ordered) % 2 == 0:
            names = ", ".join(item.id for item in ordered)
            raise Rejected("ambiguous", f"none of {len(ordered)} is in the middle: {names}: say left or right")
        return ordered[len(ordered) // 2]
    return ordered[0] if side is Side.LEFT else ordered[-1]


def _is_on_side(side: Side, item: Tracked, peers: list[Tracked]) -> bool:
    ordered = [peer.id for peer in sorted(peers, key=lambda peer: -peer.start[1])]
    index = ordered.index(item.id)
    if side is Side.MIDDLE:
        return 0 < index < len(ordered) - 1
    return index < (len(ordered) - 1) / 2 if side is Side.LEFT else index > (len(ordered) - 1) / 2
