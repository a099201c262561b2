"""A table without physics: things are carried when held, fall to what is below when let go, and are seen by a finder."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tests.tools.doubles import CAMERA_TO_BASE, FakeArm, FakeCamera
from vlatools.core import Family, Invocation, InvocationResult, ManualClock, MonitorConfig, Pose
from vlatools.perception.ports import DetectedObject, Scene
from vlatools.policy.analytic import AnalyticConfig, AnalyticPolicy
from vlatools.tools import ToolExecutor, ToolsConfig

MONITOR = MonitorConfig(stall_window_s=2.0, grace_s=0.6, horizon_s=15.0, smoothing_s=0.15, completion_hold_s=0.1)


@dataclass
class Body:
    """One thing: centre, yaw, size."""

    category: str
    position: np.ndarray
    yaw: float
    size: np.ndarray

    @property
    def top(self) -> float:
        return float(self.position[2] + self.size[2] / 2)


def cube(x: float, y: float, yaw: float = 0.0, z: float = 0.02) -> Body:
    return Body("cube", np.array([x, y, z]), yaw, np.full(3, 0.04))


def bowl(x: float, y: float) -> Body:
    return Body("bowl", np.array([x, y, 0.0225]), 0.0, np.array([0.132, 0.132, 0.045]))


class Table:
    """Things, arm, camera, executor with the analytic policy."""

    def __init__(self, things: dict[str, Body], config: AnalyticConfig | None = None) -> None:
        self.clock = ManualClock(50.0)
        self.arm = FakeArm(self.clock)
        self.arm.on_step = self._step
        self.camera = FakeCamera(self.clock)
        self.things = things
        self.held: str | None = None
        self.hidden: set[str] = set()
        self.looks = 0
        self.noise = 0.0
        self._grip: tuple[np.ndarray, float] | None = None
        self._rng = np.random.default_rng(0)
        self.policy = AnalyticPolicy(self, config)
        tools = ToolsConfig(monitor=dict.fromkeys(Family, MONITOR))
        self.executor = ToolExecutor(self.policy, self.arm, self.camera, CAMERA_TO_BASE, self.clock, tools)
        self.lowest = math.inf

    # perception
    def locate(self, frame, camera_to_base, names=None) -> Scene:
        self.looks += 1
        found = []
        for name, body in sorted(self.things.items()):
            if name in self.hidden or (names and name not in names):
                continue
            position = body.position + self.noise * self._rng.standard_normal(3) * np.array([1, 1, 0.3])
            quat = np.array([0, 0, math.sin(body.yaw / 2), math.cos(body.yaw / 2)])
            found.append(DetectedObject(name, body.category, "", 0.9, Pose(position, quat), body.size, (0, 0, 1, 1), 100))
        return Scene(frame.stamp_s, tuple(found))

    # physics
    def _step(self, arm: FakeArm) -> None:
        tool = arm.ee
        self.lowest = min(self.lowest, float(tool.position[2]))
        if self.held is not None:
            offset, bearing = self._grip  # type: ignore[misc]
            body = self.things[self.held]
            c, s = math.cos(tool.yaw), math.sin(tool.yaw)
            body.position = tool.position + np.array([c * offset[0] - s * offset[1], s * offset[0] + c * offset[1], offset[2]])
            body.yaw = tool.yaw + bearing
            if arm.graspable == 0 or arm.width > arm.graspable + 0.004:
                self._drop(arm)
        elif arm._target_width < arm.width - 0.004:
            self._take(arm)

    def _take(self, arm: FakeArm) -> None:
        p, yaw = arm.ee.position, arm.ee.yaw
        for name, body in self.things.items():
            delta = body.position - p
            if body.category == "bowl":
                near = abs(np.linalg.norm(delta[:2]) - 0.06) < 0.012 and p[2] < body.top
                width = 0.004
            else:
                near = np.linalg.norm(delta) < 0.015
                width = 0.04
            if near and arm.width > width:
                c, s = math.cos(-yaw), math.sin(-yaw)
                arm.graspable = width
                if arm.width - width > 0.002:
                    return  # not yet touched
                offset = np.array([c * delta[0] - s * delta[1], s * delta[0] + c * delta[1], delta[2]])
                if body.category == "cube":
                    offset[1] = 0.0
                self._grip = offset, body.yaw - yaw
                self.held = name
                return
        arm.graspable = 0.0

    def _drop(self, arm: FakeArm) -> None:
        body = self.things[self.held]  # type: ignore[index]
        below = 0.0
        for name, other in self.things.items():
            distance = float(np.linalg.norm(other.position[:2] - body.position[:2]))
            if name == self.held:
                continue
            if other.category == "bowl" and distance < 0.05:
                below = max(below, 0.004)
            elif other.category == "cube" and distance < 0.03 and other.top <= body.position[2]:
                below = max(below, other.top)
        body.position = np.array([*body.position[:2], below + body.size[2] / 2])
        self.held, self._grip, arm.graspable = None, None, 0.0

    def knock_out(self) -> None:
        """The held thing falls."""
        if self.held is not None:
            self._drop(self.arm)

    def do(self, family: str, name: str, **arguments) -> InvocationResult:
        invocation = Invocation(Family(family), f"{family} the {name}", object=name, **arguments)
        return self.executor.execute(invocation)
