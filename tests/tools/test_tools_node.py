"""The tools node and the planner's client of it, over real ROS actions; the arm and the camera are doubles."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from vlatools_interfaces.msg import InvocationRecord, ToolProgress
from vlatools_interfaces.srv import GetManifest

from tests.nodes.conftest import Spinner
from tests.perception.raycast import RED, YELLOW, Picture, bowl, cube
from tests.tools.doubles import FakeArm
from vlatools.camera.ports import RgbdFrame
from vlatools.core import CancelToken, Family, Feedback, Invocation, InvocationResult, MonotonicClock, Outcome
from vlatools.nodes import tools as module
from vlatools.nodes.ros_tools import RosTools


class Picturebook:
    """A camera that always sees the same table, freshly."""

    def __init__(self, _node: Node | None = None) -> None:
        self._frame = Picture([cube(0.44, 0.10, RED, 0.3), cube(0.45, -0.10, YELLOW, -0.4), *bowl(0.62, 0.12), *bowl(0.62, -0.12)]).frame()

    def latest(self, max_age_s: float) -> RgbdFrame:
        f = self._frame
        return RgbdFrame(time.monotonic(), f.number, f.color, f.depth, f.intrinsics)


class RealTimeArm(FakeArm):
    """The kinematic arm on the real clock."""

    def __init__(self, _node: Node | None = None) -> None:
        super().__init__(MonotonicClock())  # type: ignore[arg-type]


class Graph:
    """Node, client, and what was heard on the topics."""

    def __init__(self, node: module.ToolsNode, peer: Node) -> None:
        self.node = node
        self.arm: RealTimeArm = node._arm  # type: ignore[assignment]
        self.tools = RosTools(peer)
        self.progress: list[ToolProgress] = []
        self.log: list[InvocationRecord] = []
        self.manifests: list[String] = []
        peer.create_subscription(ToolProgress, "/tools/progress", self.progress.append, 50)
        peer.create_subscription(InvocationRecord, "/tools/log", self.log.append, 50)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        peer.create_subscription(String, "/tools/manifest", self.manifests.append, latched)
        self.get_manifest = peer.create_client(GetManifest, "/tools/get_manifest")
        self.feedback: list[Feedback] = []

    def call(self, family: Family, cancel: CancelToken | None = None, name: str = "red cube", **arguments: Any) -> InvocationResult:
        invocation = Invocation(family, f"{family.value} the {name}", object=name, **arguments)
        return self.tools.invoke(invocation, cancel, self.feedback.append)

    def later(self, *args: Any, **kwargs: Any) -> Callable[[], InvocationResult]:
        """Start a call in a thread; returns a function that waits for its result."""
        results: list[InvocationResult] = []
        thread = threading.Thread(target=lambda: results.append(self.call(*args, **kwargs)))
        thread.start()

        def join() -> InvocationResult:
            thread.join(15.0)
            return results[0]

        return join

    def home(self) -> None:
        self.arm.ee = type(self.arm)().ee
        self.feedback.clear()


def until(condition: Callable[[], Any], timeout_s: float = 5.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "condition not met in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def graph() -> Iterator[Graph]:
    if not rclpy.ok():
        rclpy.init()
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "RosArm", RealTimeArm)
    patch.setattr(module, "RosCamera", Picturebook)
    spinner, client_spinner = Spinner(), Spinner()
    node, peer = module.ToolsNode(), Node("tools_test")
    spinner.executor.add_node(node)
    client_spinner.executor.add_node(peer)
    yield Graph(node, peer)
    node.end_goals()
    spinner.close()
    client_spinner.close()
    node.close()
    node.destroy_node()
    peer.destroy_node()
    patch.undo()


def test_a_reach_over_ros_with_progress_and_mirrors(graph: Graph) -> None:
    graph.home()
    result = graph.call(Family.REACH)
    assert result.outcome is Outcome.COMPLETED, result.message
    assert result.end_pose is not None
    assert result.end_pose.position[:2] == pytest.approx([0.44, 0.10], abs=0.01)
    shown = [f.sample.smoothed for f in graph.feedback]
    assert shown[-1] >= 0.9
    times = [f.sample.time_s for f in graph.feedback]
    assert times == sorted(times)
    assert len(times) <= 20 * result.duration_s + 2
    until(lambda: any(r.event == InvocationRecord.FINISHED for r in graph.log))
    started, finished = (next(r for r in graph.log if r.event == e) for e in (InvocationRecord.STARTED, InvocationRecord.FINISHED))
    assert started.invocation_id == finished.invocation_id == result.invocation.id
    assert json.loads(started.arguments_json)["completion_threshold"] == pytest.approx(0.9)
    assert finished.outcome == "COMPLETED"
    until(lambda: any(p.invocation_id == result.invocation.id and p.verdict == ToolProgress.ADVANCE for p in graph.progress))


def test_the_manifest_is_latched_and_served(graph: Graph) -> None:
    until(lambda: graph.manifests)
    done = threading.Event()
    future = graph.get_manifest.call_async(GetManifest.Request())
    future.add_done_callback(lambda _f: done.set())
    assert done.wait(5.0)
    served = json.loads(future.result().manifest_json)
    assert served == json.loads(graph.manifests[0].data)
    assert "reach" in served["families"]
    assert "flip" in served["refused_families"]


def test_a_family_without_a_policy_is_refused_and_leaves_the_running_one_alone(graph: Graph) -> None:
    graph.home()
    running = graph.later(Family.REACH)
    until(lambda: graph.feedback)
    refused = RosTools.invoke(graph.tools, Invocation(Family.FLIP, "flip the red cube"))
    assert (refused.outcome, refused.reason) == (Outcome.REJECTED, "family_not_served")
    assert "reach" in refused.message
    assert running().outcome is Outcome.COMPLETED


def test_a_newer_invocation_preempts(graph: Graph) -> None:
    graph.home()
    first = graph.later(Family.REACH)
    until(lambda: any(f.chunk_index >= 1 for f in graph.feedback))
    second = graph.later(Family.REACH, name="yellow cube")
    assert (first().outcome, first().reason) == (Outcome.PREEMPTED, "preempted")
    assert second().outcome is Outcome.COMPLETED
    assert graph.arm.ee.position[1] < 0


def test_a_cancel_ends_canceled_and_at_rest(graph: Graph) -> None:
    graph.home()
    token = CancelToken()
    running = graph.later(Family.REACH, token)
    until(lambda: any(f.chunk_index >= 1 for f in graph.feedback))
    token.cancel()
    begin = time.monotonic()
    result = running()
    assert result.outcome is Outcome.CANCELED
    assert result.standstill
    assert time.monotonic() - begin < 1.5
    sent = len(graph.arm.chunks)
    time.sleep(0.4)
    assert len(graph.arm.chunks) == sent


@pytest.mark.parametrize("delay_s", [0.0, 0.001, 0.01, 0.05])
def test_a_cancel_around_the_acknowledgement_leaves_no_orphan(graph: Graph, delay_s: float) -> None:
    """C29, C30."""
    graph.home()
    token = CancelToken()
    threading.Timer(delay_s, token.cancel).start()
    result = graph.call(Family.REACH, token)
    assert result.outcome is Outcome.CANCELED
    sent = len(graph.arm.chunks)
    time.sleep(0.3)
    assert len(graph.arm.chunks) == sent
    assert not graph.node.busy


def test_arguments_survive_the_way(graph: Graph) -> None:
    graph.home()
    result = graph.call(Family.REACH, name="green cube", position=np.array([0.5, 0.0, 0.02]), horizon_s=9.0)
    assert result.outcome is Outcome.COMPLETED, result.message
    until(lambda: any("green" in r.instruction for r in graph.log))
    record = next(r for r in graph.log if "green" in r.instruction)
    arguments = json.loads(record.arguments_json)
    assert arguments["position"] == pytest.approx([0.5, 0.0, 0.02])
    assert arguments["horizon"] == pytest.approx(9.0)


def test_an_arm_that_is_not_ready_rejects_with_its_advice(graph: Graph) -> None:
    """C54."""
    graph.home()
    graph.arm.reason = "clear the stop with /arm/clear_stop"
    result = graph.call(Family.REACH)
    graph.arm.reason = ""
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "not_ready")
    assert "/arm/clear_stop" in result.message


def test_a_bad_argument_is_refused_with_its_limit(graph: Graph) -> None:
    graph.home()
    invocation = Invocation(Family.REACH, "reach")
    object.__setattr__(invocation, "horizon_s", math.inf)
    result = graph.tools.invoke(invocation)
    assert (result.outcome, result.reason) == (Outcome.REJECTED, "bad_argument")
    assert "600" in result.message
