"""A table without physics: tools that do exactly what they are told, unless a script says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vlatools.agent.ports import Observe
from vlatools.agent.result import TaskResult
from vlatools.core import (
    CancelToken,
    Family,
    Feedback,
    Invocation,
    InvocationResult,
    ManualClock,
    Outcome,
    Pose,
    ProgressSample,
    Verdict,
)
from vlatools.perception.ports import DetectedObject, Scene
from vlatools.robot.ports import ArmMode, ArmState, Home, Primitive, PrimitiveResult, Release, Retreat

CUBE = np.array([0.04, 0.04, 0.04])
BOWL = np.array([0.13, 0.13, 0.045])
OPEN = 0.08

RunTask = Callable[..., TaskResult]
Script = Callable[["FakeWorld", Invocation], InvocationResult | None]


def thing(name: str, x: float, y: float, bottom: float = 0.0) -> DetectedObject:
    """A detected object; "red cube" or "left bowl"."""
    words = name.split()
    bowl = words[-1] == "bowl"
    size = BOWL if bowl else CUBE
    pose = Pose(np.array([x, y, bottom + size[2] / 2]), np.array([0.0, 0.0, 0.0, 1.0]))
    return DetectedObject(name, words[-1], "" if bowl else words[-2], 0.9, pose, size, (0, 0, 1, 1), 100)


SIMPLE = (
    thing("red cube", 0.44, 0.10),
    thing("yellow cube", 0.44, -0.10),
    thing("left bowl", 0.62, 0.12),
    thing("right bowl", 0.62, -0.12),
)
CONDITIONED = (thing("red cube", 0.5, 0.10), thing("yellow cube", 0.5, -0.10))
LONG = (
    thing("blue cube", 0.44, 0.15),
    thing("red cube", 0.44, 0.0),
    thing("yellow cube", 0.44, -0.15),
    thing("left bowl", 0.62, 0.10),
    thing("right bowl", 0.62, -0.10),
)


@dataclass
class FakeWorld:
    """Objects, a gripper, and a clock. Implements Tools, AgentArm and (through ``observe``) perception."""

    objects: dict[str, DetectedObject]
    clock: ManualClock
    held: str = ""
    ee: np.ndarray = field(default_factory=lambda: np.array([0.4, 0.0, 0.4]))
    width: float = OPEN
    mode: ArmMode = ArmMode.IDLE
    ready: bool = True
    moving: bool = False
    hidden: set[str] = field(default_factory=set)
    seconds: float = 2.0
    script: Script | None = None
    calls: list[Invocation] = field(default_factory=list)
    primitives: list[str] = field(default_factory=list)
    recovered: int = 0
    looks: int = 0

    @staticmethod
    def of(things: tuple[DetectedObject, ...], **more: object) -> FakeWorld:
        return FakeWorld({item.name: item for item in things}, ManualClock(100.0), **more)  # type: ignore[arg-type]

    # ---- perception

    @property
    def observe(self) -> Observe:
        def look() -> Scene:
            self.looks += 1
            self.clock.sleep(0.1)
            seen = [item for name, item in self.objects.items() if name not in self.hidden]
            return Scene(self.clock.now(), tuple(sorted(self._named(seen), key=lambda item: item.name)))

        return look

    def _named(self, seen: list[DetectedObject]) -> list[DetectedObject]:
        from vlatools.perception.naming import assign

        return list(assign(seen))

    def place(self, name: str, x: float, y: float, bottom: float = 0.0) -> None:
        """Put an object somewhere, as by hand; what lies in a bowl goes with it."""
        old = self.objects[name]
        self.objects[name] = thing(name, x, y, bottom)
        if name.endswith("bowl"):
            for other, item in list(self.objects.items()):
                if (
                    other not in (name, self.held)
                    and np.hypot(*(item.pose.position[:2] - old.pose.position[:2])) < 0.04
                ):
                    self.objects[other] = thing(other, x, y, 0.004)

    # ---- arm

    def state(self) -> ArmState:
        return ArmState(
            stamp_s=self.clock.now(),
            mode=self.mode,
            ready=self.ready,
            reason="" if self.ready else "busy in the test",
            q=np.zeros(7),
            dq=np.zeros(7),
            ee=Pose.pointing_down(self.ee),
            wrench=np.zeros(6),
            standstill=not self.moving,
            gripper_width=self.width,
            gripper_age_s=0.0,
            gripper_holding=bool(self.held),
        )

    def run(
        self, primitive: Primitive, cancel: CancelToken | None = None, on_feedback: object = None
    ) -> PrimitiveResult:
        self.primitives.append(type(primitive).__name__)
        self.clock.sleep(0.5)
        if isinstance(primitive, Release):
            self._drop()
        elif isinstance(primitive, Retreat):
            self.ee = self.ee + np.array([0, 0, primitive.distance])
            self._carry()
        elif isinstance(primitive, Home):
            self.ee = np.array([0.4, 0.0, 0.4])
            self._carry()
        return PrimitiveResult(Outcome.COMPLETED, "", "", True, None, None, 0.0, 0.0, self.width, 0.5, 0)

    def recover(self, allow_collision: bool = False) -> tuple[str, ...]:
        self.recovered += 1
        self.mode, self.ready = ArmMode.IDLE, True
        return ("cartesian_reflex",)

    def _drop(self) -> None:
        """Open: what is held falls straight down."""
        if self.held:
            position = self.objects[self.held].pose.position
            self.rest(self.held, float(position[0]), float(position[1]))
        self.held, self.width = "", OPEN

    def rest(self, name: str, x: float, y: float) -> None:
        """Let an object come to rest at (x, y): in a bowl, on a cube or on the table."""
        bottom = 0.0
        for other, item in self.objects.items():
            if other in (name, self.held):
                continue
            distance = float(np.hypot(item.pose.position[0] - x, item.pose.position[1] - y))
            if item.category == "bowl" and distance < 0.045:
                bottom = max(bottom, 0.004)
            elif item.category == "cube" and distance < 0.02:
                bottom = max(bottom, item.top)
        self.place(name, x, y, bottom)

    def _carry(self) -> None:
        if self.held:
            item = self.objects[self.held]
            self.place(self.held, float(self.ee[0]), float(self.ee[1]), float(self.ee[2] - item.size[2] / 2))

    # ---- tools

    def invoke(
        self,
        invocation: Invocation,
        cancel: CancelToken,
        on_feedback: Callable[[Feedback], None] | None = None,
    ) -> InvocationResult:
        self.calls.append(invocation)
        if on_feedback is not None:
            now = self.clock.now()
            sample = ProgressSample(now, 0.0, 0.5, 0.5, float("nan"), Verdict.CONTINUE)
            on_feedback(Feedback(invocation, sample, "test", 0, 0.0))
        scripted = self.script(self, invocation) if self.script is not None else None
        if scripted is not None:
            return scripted
        return self.act(invocation)

    def act(self, invocation: Invocation) -> InvocationResult:
        """Do what was asked."""
        self.clock.sleep(self.seconds)
        name = self._true_name(invocation.object)
        if invocation.family is Family.REACH:
            self.ee = np.array(self.objects[name].pose.position)
        elif invocation.family is Family.GRASP:
            near = np.linalg.norm(self.objects[name].pose.position - self.ee) < 0.03
            if not near:
                self.width = 0.0
                return self.result(invocation, Outcome.STAGNATED, "stagnated", "the gripper closed on nothing")
            self.held, self.width = name, 0.04
        elif invocation.family is Family.MOVE:
            if not self.held:
                return self.result(invocation, Outcome.FAULT, "not_held", "nothing is held")
            assert invocation.position is not None
            goal = np.array(invocation.position)
            if invocation.target:
                goal[:2] = self.objects[self._true_name(invocation.target)].pose.position[:2]
            self.ee = goal + np.array([0, 0, self.objects[self.held].size[2] / 2])
            self._carry()
        elif invocation.family is Family.RELEASE:
            self._drop()
        return self.result(invocation)

    def _true_name(self, name: str) -> str:
        """The object that perception calls ``name`` now."""
        order = list(self.objects)
        named = self._named_by_key()
        found = named.get(name)
        assert found is not None, f"the agent asked for {name!r}, there are {order}"
        return found

    def _named_by_key(self) -> dict[str, str]:
        from vlatools.perception.naming import assign

        out = {}
        for item in assign(self.objects.values()):
            key = next(k for k, v in self.objects.items() if v.pose is item.pose)
            out[item.name] = key
        return out

    def result(
        self, invocation: Invocation, outcome: Outcome = Outcome.COMPLETED, reason: str = "", message: str = ""
    ) -> InvocationResult:
        return InvocationResult(
            invocation, outcome, reason, message, 1.0 if outcome is Outcome.COMPLETED else 0.2, self.seconds, 3, 0,
            Pose.pointing_down(self.ee), self.width, bool(self.held), not self.moving, 0.05,
        )  # fmt: skip
