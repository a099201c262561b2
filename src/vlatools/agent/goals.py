"""What an instruction asks for, before anything is seen: a small typed tree of references, places and goals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Side(str, Enum):
    """Side as seen from the robot's base along +x: left is +y, behind is farther away (+x)."""

    LEFT = "left"
    RIGHT = "right"
    MIDDLE = "middle"
    BEHIND = "behind"
    FRONT = "front"
    ANY = "any"


@dataclass(frozen=True)
class ObjectRef:
    """A noun phrase with its pronouns already resolved.

    Attributes:
        category: ``cube``, ``bowl`` or "" (a colour alone: "stack blue on red").
        color: ``red`` ... or "".
        side: left, right or middle among the objects that fit, or None.
        all: "all cubes", "both cubes".
    """

    category: str = ""
    color: str = ""
    side: Side | None = None
    all: bool = False

    def __str__(self) -> str:
        words = [self.side.value if self.side else "", self.color, self.category or "object"]
        noun = " ".join(word for word in words if word)
        return f"all {noun}s" if self.all else f"the {noun}"


@dataclass(frozen=True)
class InBowl:
    """Inside a bowl."""

    bowl: ObjectRef


@dataclass(frozen=True)
class OnTop:
    """On top of another object."""

    support: ObjectRef


@dataclass(frozen=True)
class WhereWas:
    """Where ``ref`` stood when the task began; None means the moved object itself ("put it back")."""

    ref: ObjectRef | None = None


@dataclass(frozen=True)
class Beside:
    """On the table next to ``ref``."""

    ref: ObjectRef
    side: Side


@dataclass(frozen=True)
class OnTable:
    """Off whatever it lies on: its own first place if that is on the table and free, else any free spot.

    ``source``: what the instruction says that it lies on ("take red off yellow"), or None.
    """

    source: ObjectRef | None = None


PlaceRef: TypeAlias = InBowl | OnTop | WhereWas | Beside | OnTable


@dataclass(frozen=True)
class Put:
    """Bring ``object`` to ``place``; ``object`` None means the top of the newest stack ("unstack them")."""

    object: ObjectRef | None
    place: PlaceRef


@dataclass(frozen=True)
class Hold:
    """Pick ``object`` up and keep it in the gripper."""

    object: ObjectRef


@dataclass(frozen=True)
class RestoreAll:
    """Bring everything that was moved back to where it was when the task began."""


Goal: TypeAlias = Put | Hold | RestoreAll
