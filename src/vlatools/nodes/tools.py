"""Node ``tools``: one action server a tool family, one invocation at a time; a newer one preempts the one before."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from vlatools_interfaces.action import InvokeTool
from vlatools_interfaces.msg import InvocationRecord, ToolProgress
from vlatools_interfaces.srv import GetManifest

from vlatools.camera import calibration
from vlatools.config import find_config, load
from vlatools.core import CancelToken, ConfigError, Family, Feedback, Invocation, Rejected
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.convert import (
    feedback_to_msg,
    invocation_from_goal,
    invocation_record,
    invocation_result_to_msg,
)
from vlatools.nodes.goals import GoalRunner, Slot
from vlatools.nodes.ros_arm import RosArm
from vlatools.nodes.ros_camera import RosCamera
from vlatools.perception.config import PerceptionConfig
from vlatools.perception.locator import Locator
from vlatools.policy.analytic import AnalyticConfig
from vlatools.policy.ports import Manifest
from vlatools.policy.registry import PolicyParts, make_policy, policy_names
from vlatools.shared_clock import lab_clock
from vlatools.tools import ThreadInference, ToolExecutor, ToolsConfig

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_CAMERAS = ("front",)


@dataclass(frozen=True)
class ToolsParams:
    """Parameters of the tools node."""

    policy: str = field(default="analytic", metadata={"help": "who executes the tool families: analytic"})
    config: str = field(default="tools.yaml", metadata={"help": "executor, stage checks and progress monitor"})
    analytic: str = field(default="analytic.yaml", metadata={"help": "settings of the analytic policy"})
    perception: str = field(default="perception.yaml", metadata={"help": "colours and sizes that perception knows"})
    calibration: str = field(default="calibration/sim_d435.yaml", metadata={"help": "camera calibration file"})

    def __post_init__(self) -> None:
        if self.policy not in policy_names():
            raise ConfigError(f"policy is {self.policy!r}, known are {', '.join(policy_names())}: choose one of them")


class ToolsNode(VlatoolsNode):
    """Adapter from ROS to the ToolExecutor."""

    NAME = "tools"
    PARAMS = ToolsParams
    params: ToolsParams

    def __init__(self) -> None:
        super().__init__()
        config = load(ToolsConfig, find_config(self.params.config))
        finder = Locator(config=load(PerceptionConfig, find_config(self.params.perception)))
        parts = PolicyParts(finder, load(AnalyticConfig, find_config(self.params.analytic)))
        policy = make_policy(self.params.policy, parts, _CAMERAS)
        camera_to_base = calibration.load(find_config(self.params.calibration)).camera_to_base
        self._arm = RosArm(self)
        self._camera = RosCamera(self)
        self._inference = ThreadInference()
        self._tools = ToolExecutor(policy, self._arm, self._camera, camera_to_base, lab_clock(), config, self._inference)
        self._manifest = manifest_json(policy.manifest)
        self._progress = self.create_publisher(ToolProgress, "/tools/progress", 10)
        self._log = self.create_publisher(InvocationRecord, "/tools/log", 50)
        self._manifests = self.create_publisher(String, "/tools/manifest", _LATCHED)
        self._manifests.publish(String(data=self._manifest))
        self.create_service(GetManifest, "/tools/get_manifest", self._get_manifest)
        slot = Slot()
        for family in Family:
            # What no policy serves is answered at once; it must not preempt what runs.
            served = family in policy.manifest.families
            GoalRunner[Any, Any, Any](
                self,
                InvokeTool,
                f"/tools/{family.value}",
                functools.partial(self._execute, family),
                slot=slot if served else None,
            )

    def close(self) -> None:
        """End the policy's worker."""
        self._inference.close()

    def _execute(self, family: Family, goal: InvokeTool.Goal, cancel: CancelToken, feedback: Callable[[Any], None]) -> InvokeTool.Result:
        if goal.family not in ("", family.value):
            raise Rejected("bad_argument", f"a goal of family {goal.family!r} came to /tools/{family.value}: send it to its own server")
        goal.family = family.value
        invocation = invocation_from_goal(goal)
        arguments = self._arguments(invocation)
        self._log.publish(invocation_record(invocation, arguments, None, self.stamps.now()))

        def report(given: Feedback) -> None:
            message = feedback_to_msg(given, self.stamps)
            self._progress.publish(message)
            feedback(InvokeTool.Feedback(progress=message))

        result = self._tools.execute(invocation, cancel, report)
        self._log.publish(invocation_record(invocation, arguments, result, self.stamps.now()))
        return invocation_result_to_msg(result)

    def _arguments(self, invocation: Invocation) -> dict[str, Any]:
        """The invocation's arguments with the thresholds that are in effect."""
        monitor = self._tools.config.monitor_of(invocation.family)
        with contextlib.suppress(ConfigError):  # the executor rejects it with the reason
            monitor = monitor.with_overrides(invocation.overrides, invocation.horizon_s)
        return {
            "object": invocation.object,
            "target": invocation.target,
            "position": invocation.position,
            "angle": invocation.angle,
            "horizon": monitor.horizon_s,
            "completion_threshold": monitor.completion_threshold,
            "completion_hold": monitor.completion_hold_s,
            "stall_window": monitor.stall_window_s,
            "stall_gain": monitor.stall_gain,
            "plan_generation": invocation.plan_generation,
        }

    def _get_manifest(self, _request: GetManifest.Request, response: GetManifest.Response) -> GetManifest.Response:
        response.manifest_json = self._manifest
        return response


def manifest_json(manifest: Manifest) -> str:
    """A manifest as JSON; families that it lacks are listed as refused."""
    data = dataclasses.asdict(manifest)
    data["families"] = [family.value for family in manifest.families]
    data["refused_families"] = [family.value for family in Family if family not in manifest.families]
    data["action_space"] = manifest.action_space.value
    return json.dumps(data)


def main() -> int:
    """Entry point of the process."""
    return run_node(ToolsNode)


if __name__ == "__main__":
    raise SystemExit(main())
