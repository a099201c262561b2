"""The eleven tool families of VLAs-as-Tools (paper, Table 6), restated as operational definitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Family(str, Enum):
    """Tool-family label g. The value is the action server's name under ``/tools/``."""

    REACH = "reach"
    GRASP = "grasp"
    MOVE = "move"
    RELEASE = "release"
    PULL = "pull"
    PUSH = "push"
    ROTATE = "rotate"
    FLIP = "flip"
    INSERT = "insert"
    PRESS = "press"
    STRIKE = "strike"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class FamilySpec:
    """What a family does and which arguments ground it.

    Attributes:
        family: the label.
        definition: the operational definition: contact pattern, motion and where the segment ends.
        arguments: names of the arguments, in the order of the paper's table.
    """

    family: Family
    definition: str
    arguments: tuple[str, ...]


FAMILIES: dict[Family, FamilySpec] = {
    spec.family: spec
    for spec in (
        FamilySpec(
            Family.REACH,
            "Bring the gripper to the object without changing its opening; ends before any contact changes the object.",
            ("object",),
        ),
        FamilySpec(
            Family.GRASP,
            "Close on the object that the gripper stands around; ends with a stable hold.",
            ("object",),
        ),
        FamilySpec(
            Family.MOVE,
            "Carry the gripper, and what it holds, to a place relative to a reference; the opening does not change.",
            ("position", "target"),
        ),
        FamilySpec(
            Family.RELEASE,
            "Open to detach the held object where it is; ends when the object no longer follows the gripper.",
            ("object",),
        ),
        FamilySpec(
            Family.PULL,
            "Take hold of or hook the object and draw it back towards a place.",
            ("object", "position"),
        ),
        FamilySpec(
            Family.PUSH,
            "Touch the object and drive it forward to a place; ends when it rests and contact is released.",
            ("object", "position"),
        ),
        FamilySpec(
            Family.ROTATE,
            "Turn the object, or a part on a hinge, without turning it upside down.",
            ("object", "angle"),
        ),
        FamilySpec(
            Family.FLIP,
            "Turn the object about a horizontal axis so that its other side shows.",
            ("object", "angle"),
        ),
        FamilySpec(
            Family.INSERT,
            "Align the held object with an opening of the target and seat it along the axis.",
            ("object", "target"),
        ),
        FamilySpec(
            Family.PRESS,
            "Touch the object from above and hold a normal force, with little sideways motion.",
            ("object",),
        ),
        FamilySpec(
            Family.STRIKE,
            "Bring the gripper or a held object rapidly against the target.",
            ("object", "target", "position"),
        ),
    )
}
