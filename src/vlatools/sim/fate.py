"""What goes wrong on purpose: a cube moved by hand during a grasp, a cube knocked out of the gripper, a bowl shifted after the plan.

Works on anything that has the simulation's truth and hands: LockstepLab and SimControl alike.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from vlatools.core import Family, Pose
from vlatools.sim.world import Truth

DISTURBANCES = ("none", "teleport_grasp", "drop_move", "shift_bowl")
TABLE = ((0.36, 0.66), (-0.20, 0.20))  # where the hand of fate may put things, m


class Hands(Protocol):
    """Truth and hands in a simulated lab."""

    def truth(self) -> Truth:
        """True state."""
        ...

    def teleport(self, name: str, pose: Pose) -> None:
        """Move an object."""
        ...

    def knock(self, name: str, impulse: Any) -> None:
        """Hit an object, N s."""
        ...


class Fate:
    """One disturbance a trial. Ask ``delay`` at the start of each invocation; after so many seconds call ``strike``.

    Attributes:
        done: what happened, "" before.
    """

    def __init__(self, kind: str, hands: Hands, rng: np.random.Generator) -> None:
        self._kind = kind
        self._hands = hands
        self._rng = rng
        self._left = int(rng.integers(0, 2))  # how many chances to let pass
        self._bowl_moment = Family.MOVE if rng.random() < 0.5 else Family.REACH  # under way to it, or long before
        self.done = ""

    def delay(self, family: Family, name: str) -> float | None:
        """Seconds into this invocation of an object at which fate strikes; None when it does not."""
        cube = name.endswith("cube")
        chance = {
            "none": False,
            "teleport_grasp": family is Family.GRASP and cube,
            "drop_move": family is Family.MOVE and cube,
            "shift_bowl": family is self._bowl_moment and cube,
        }[self._kind]
        if not chance or self.done:
            return None
        self._left -= 1
        if self._left != -1:
            return None
        return float(self._rng.uniform(0.02, 0.25) if self._kind == "teleport_grasp" else self._rng.uniform(0.3, 1.2))

    def strike(self, name: str, target: str, instruction: str) -> None:
        """Let it happen during the invocation of that object and target."""
        if self._kind == "drop_move":
            push = self._rng.uniform(-1, 1, 2)
            self._hands.knock(name, np.array([*(0.04 * push / np.linalg.norm(push)), 0.0]))
            self.done = f"{name} knocked out during '{instruction}'"
            return
        bowls = [each for each in self._hands.truth().objects if each.endswith("bowl")]
        if self._kind == "teleport_grasp":
            victim = name
        elif target in bowls:
            victim = target
        else:
            victim = str(self._rng.choice(bowls)) if bowls else ""
        place = self._free_place(victim) if victim else None
        if place is not None:
            body = self._hands.truth().objects[victim]
            self._hands.teleport(victim, Pose(np.array([*place, body.size[2] / 2 + 0.001]), body.pose.quat_xyzw))
            self.done = f"{victim} put to ({place[0]:.2f}, {place[1]:.2f}) during '{instruction}'"

    def _free_place(self, name: str) -> tuple[float, float] | None:
        """A place 7 to 12 cm away (a bowl 3 to 5) that touches nothing; a cube must not land in a finger."""
        objects = self._hands.truth().objects
        here = objects[name].pose.position
        for _ in range(200):
            angle = self._rng.uniform(-np.pi, np.pi)
            distance = self._rng.uniform(*((0.03, 0.05) if name.endswith("bowl") else (0.07, 0.12)))
            x, y = here[0] + distance * np.cos(angle), here[1] + distance * np.sin(angle)
            inside = TABLE[0][0] <= x <= TABLE[0][1] and TABLE[1][0] <= y <= TABLE[1][1]
            clear = all(
                np.hypot(x - other.pose.position[0], y - other.pose.position[1]) > (other.size[0] + objects[name].size[0]) / 2 + 0.03
                for key, other in objects.items()
                if key != name and not other.held
            )
            if inside and clear:
                return float(x), float(y)
        return None
