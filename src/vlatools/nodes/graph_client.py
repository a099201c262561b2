"""A client of the whole graph for command line, benchmarks and tests: is it ready, run a task, record, watch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CameraInfo, JointState
from vlatools_interfaces.action import Locate, RunTask
from vlatools_interfaces.msg import ActionChunk, AgentEvent, ArmState, Plan, ToolProgress
from vlatools_interfaces.srv import GetManifest, Recover, SetStop, StartRecording, StopRecording

from vlatools.nodes.calls import ActionClient, GoalCall, call_service
from vlatools.nodes.convert import arm_state_from_msg
from vlatools.nodes.stamps import Stamps

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_RATE_WINDOW_S = 2.0
_SERVICE_S = 30.0


class Rate:
    """Messages per second over the last two seconds."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self.count = 0

    def tick(self, _message: Any) -> None:
        """A message came."""
        self.count += 1
        self._times.append(time.monotonic())
        self._trim()

    @property
    def hz(self) -> float:
        """Current rate."""
        self._trim()
        return len(self._times) / _RATE_WINDOW_S

    def _trim(self) -> None:
        begin = time.monotonic() - _RATE_WINDOW_S
        while self._times and self._times[0] < begin:
            self._times.popleft()


@dataclass
class Seen:
    """The newest of what the graph publishes."""

    plan: Plan | None = None
    progress: ToolProgress | None = None
    event: AgentEvent | None = None
    arm: ArmState | None = None


class GraphClient:
    """Context manager; has a ROS context of its own and spins its node in a thread of its own.

    Args:
        recorder: whether the graph has one.
        domain: ROS domain; None takes ROS_DOMAIN_ID. The rest of the ROS environment must be set before.
    """

    def __init__(self, recorder: bool = True, domain: int | None = None) -> None:
        self._recorder = recorder
        self._context = Context()
        rclpy.init(context=self._context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node("vlatools_client", context=self._context, start_parameter_services=False)
        self.stamps = Stamps(self.node)
        self.seen = Seen()
        self.joint_rate, self.camera_rate = Rate(), Rate()
        self.on_event: Callable[[AgentEvent], None] | None = None
        self.on_chunk: Callable[[ActionChunk], None] | None = None
        node = self.node
        self._task = ActionClient(node, RunTask, "/run_task")
        self._locate = ActionClient(node, Locate, "/perception/locate")
        self._manifest = node.create_client(GetManifest, "/tools/get_manifest")
        self._stop = node.create_client(SetStop, "/arm/stop")
        self._clear = node.create_client(SetStop, "/arm/clear_stop")
        self._recover = node.create_client(Recover, "/arm/recover")
        self._start_recording = node.create_client(StartRecording, "/recorder/start")
        self._stop_recording = node.create_client(StopRecording, "/recorder/stop")
        node.create_subscription(Plan, "/planner/plan", lambda m: self._keep("plan", m), _LATCHED)
        node.create_subscription(ToolProgress, "/tools/progress", lambda m: self._keep("progress", m), 20)
        node.create_subscription(AgentEvent, "/planner/events", self._event, 50)
        node.create_subscription(ArmState, "/arm/state", lambda m: self._keep("arm", m), qos_profile_sensor_data)
        node.create_subscription(ActionChunk, "/arm/action_chunk", self._chunk, 20)
        node.create_subscription(JointState, "/joint_states", self.joint_rate.tick, qos_profile_sensor_data)
        node.create_subscription(CameraInfo, "/camera/color/camera_info", self.camera_rate.tick, qos_profile_sensor_data)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(node)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._spin, name="graph-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> GraphClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop spinning and release ROS."""
        self._ending.set()
        self._executor.wake()
        self._thread.join(timeout=3.0)
        self._executor.remove_node(self.node)
        self.node.destroy_node()
        self._context.try_shutdown()

    def missing(self) -> list[str]:
        """What is not ready yet, in words; empty when a task can be run."""
        lacking = []
        arm = self.seen.arm
        if arm is None:
            lacking.append("/arm/state")
        elif not arm_state_from_msg(arm, self.stamps).ready:
            lacking.append(f"the arm ({arm.reason or 'not ready'})")
        if self.camera_rate.hz <= 0:
            lacking.append("camera frames")
        for name, client in (("/run_task", self._task), ("/perception/locate", self._locate)):
            if not client.server_is_ready():
                lacking.append(name)
        services = [("/tools/get_manifest", self._manifest)]
        if self._recorder:
            services.append(("/recorder/start", self._start_recording))
        lacking += [name for name, client in services if not client.service_is_ready()]
        return lacking

    def run_task(
        self, instruction: str, task: str = "", time_limit_s: float = 0.0, on_feedback: Callable[[Any], None] | None = None
    ) -> GoalCall:
        """Start a task; the call's result is a RunTask result."""
        goal = RunTask.Goal(instruction=instruction, task=task, time_limit=time_limit_s)
        return GoalCall(self._task, goal, on_feedback)

    def start_recording(self, instruction: str, task: str, seed: int, metadata_json: str = "") -> StartRecording.Response:
        """Begin a trial. Raises StaleData when the recorder does not answer."""
        request = StartRecording.Request(instruction=instruction, task=task, seed=seed, metadata_json=metadata_json)
        return call_service(self._start_recording, request, _SERVICE_S)

    def stop_recording(self, outcome: str, message: str, result_json: str) -> StopRecording.Response:
        """End the trial. Raises StaleData when the recorder does not answer."""
        request = StopRecording.Request(outcome=outcome, message=message, result_json=result_json)
        return call_service(self._stop_recording, request, _SERVICE_S)

    def stop(self, reason: str) -> SetStop.Response:
        """Latch a stop."""
        return call_service(self._stop, SetStop.Request(reason=reason), 5.0)

    def clear_stop(self, reason: str) -> SetStop.Response:
        """Clear the latch: for a person, or a test that plays one."""
        return call_service(self._clear, SetStop.Request(reason=reason), 5.0)

    def recover(self, allow_collision: bool) -> Recover.Response:
        """Clear the robot's errors."""
        return call_service(self._recover, Recover.Request(allow_collision=allow_collision), 15.0)

    def _keep(self, name: str, message: Any) -> None:
        setattr(self.seen, name, message)

    def _event(self, message: AgentEvent) -> None:
        self.seen.event = message
        if self.on_event is not None:
            self.on_event(message)

    def _chunk(self, message: ActionChunk) -> None:
        if self.on_chunk is not None:
            self.on_chunk(message)

    def _spin(self) -> None:
        while not self._ending.is_set() and self._context.ok():
            self._executor.spin_once(timeout_sec=0.2)
