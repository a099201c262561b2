"""The whole stack in lock-step: simulated lab, arm, camera, perception, policy and tools, joined as the nodes join them.

Everything below the nodes is the code that runs on the robot; only the clock, the servo, the gripper and the camera are
the simulation's. ``clock.sleep`` is what moves the world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from vlatools.config import find_config, load
from vlatools.core import CancelToken, Feedback, Invocation, InvocationResult, StaleData
from vlatools.perception.config import PerceptionConfig
from vlatools.perception.locator import Locator
from vlatools.perception.ports import Scene
from vlatools.policy.analytic import AnalyticConfig
from vlatools.policy.registry import PolicyParts, make_policy
from vlatools.robot.config import ArmConfig
from vlatools.robot.controller import ArmController
from vlatools.sim.lockstep import CameraOptions, LockstepLab
from vlatools.sim.scene import SceneConfig
from vlatools.tools import ToolExecutor, ToolsConfig

CAMERAS = ("front",)
_SETTLE_S = 3.0  # longest wait for standstill before a look
_FRAME_S = 1.0  # longest wait for a fresh frame


@dataclass(frozen=True)
class StackConfig:
    """Configuration of all parts; ``shipped`` reads the files that the nodes read."""

    arm: ArmConfig = field(default_factory=ArmConfig)
    perception: PerceptionConfig = field(default_factory=PerceptionConfig)
    analytic: AnalyticConfig = field(default_factory=AnalyticConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    policy: str = "analytic"

    @staticmethod
    def shipped(policy: str = "analytic") -> StackConfig:
        """The shipped configuration files."""
        return StackConfig(
            arm=load(ArmConfig, find_config("robot.yaml")),
            perception=load(PerceptionConfig, find_config("perception.yaml")),
            analytic=load(AnalyticConfig, find_config("analytic.yaml")),
            tools=load(ToolsConfig, find_config("tools.yaml")),
            policy=policy,
        )


class LockstepStack:
    """The stack in lock-step. Implements the agent's ``Tools`` port by ``invoke`` and its ``Observe`` by ``observe``.

    Args:
        scene: name of a scene in config/scenes, path of a YAML file, or a SceneConfig.
        seed: instance of the scene.
        config: of all parts; the shipped files if None.
        camera: rate and noise of the camera.

    Attributes:
        lab: the simulated lab, with ground truth for judges and tests only.
        clock, arm, camera, locator: the parts.
        tools: the executor.
    """

    def __init__(
        self,
        scene: str | Path | SceneConfig,
        seed: int = 0,
        config: StackConfig | None = None,
        camera: CameraOptions | None = None,
    ) -> None:
        self.config = config or StackConfig.shipped()
        self.lab = LockstepLab(scene, seed, robot=self.config.arm.robot, camera=camera)
        self.clock = self.lab.clock
        self.camera = self.lab.camera
        self.locator = Locator(config=self.config.perception)
        self.arm = ArmController(self.lab.servo, self.lab.gripper, self.config.arm, self.clock, background=lambda work: work())
        self.clock.every(self.arm.config.period_s, self.arm.tick)
        self._begin()

    def invoke(
        self,
        invocation: Invocation,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[Feedback], None] | None = None,
    ) -> InvocationResult:
        """Run one invocation to its end."""
        return self.tools.execute(invocation, cancel, on_feedback)

    def observe(self) -> Scene:
        """A look at the table after the arm has settled.

        Raises:
            StaleData: no fresh frame came, or the arm does not stand still.
        """
        if not self.arm.wait_standstill(_SETTLE_S):
            raise StaleData("arm_state", _SETTLE_S, _SETTLE_S, "the arm did not come to rest: see /arm/state")
        frame = self.camera.wait_after(self.clock.now(), _FRAME_S)
        return self.locator.locate(frame, self.lab.camera_to_base)

    def reset(self, seed: int) -> None:
        """Another instance of the scene: arm at home, gripper open, nothing remembered. Time goes on."""
        self.arm.hold()
        self.arm.halt_servo()
        self.lab.reset(seed)
        self._begin()

    def close(self) -> None:
        """Release arm and renderer."""
        self.arm.close()
        self.lab.close()

    def __enter__(self) -> LockstepStack:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _begin(self) -> None:
        """A new policy, which remembers nothing, and the first states."""
        policy = make_policy(self.config.policy, PolicyParts(self.locator, self.config.analytic), CAMERAS)
        self.tools = ToolExecutor(policy, self.arm, self.camera, self.lab.camera_to_base, self.clock, self.config.tools)
        self.clock.sleep(0.3)
