"""The camera over topics: pairs by stamp, metres, ages; and the camera node with the simulation as processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image
from vlatools_interfaces.action import CaptureRgbd, Locate, Segment

from vlatools.camera.ports import Intrinsics
from vlatools.core import Rejected, StaleData
from vlatools.nodes.calls import ActionClient
from vlatools.nodes.images import camera_info, image_to_msg
from vlatools.nodes.ros_camera import (
    COLOR_INFO_TOPIC,
    COLOR_TOPIC,
    DEPTH_TOPIC,
    IMAGE_QOS,
    OPTICAL_FRAME,
    RosCamera,
    color_from_msg,
    depth_from_msg,
    depth_to_mm,
)
from vlatools.nodes.stamps import Stamps

ROOT = Path(__file__).parents[2]
SMALL = Intrinsics(8, 6, 10.0, 10.0, 3.5, 2.5)
COLOR = np.full((6, 8, 3), (200, 10, 20), np.uint8)
DEPTH = np.full((6, 8), 0.9, np.float32)


class Graph:
    """A node that spins in a thread, in a domain of its own."""

    def __init__(self, domain: int) -> None:
        self.context = Context()
        self.context.init(domain_id=domain)
        self.node = Node("test_camera", context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._ending.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        self.node.destroy_node()
        self.context.try_shutdown()

    def call(self, kind: type, name: str, goal: object, timeout_s: float = 40.0) -> object:
        client = ActionClient(self.node, kind, name)
        try:
            assert client.wait_for_server(timeout_s), f"{name} is absent"
            sent = client.send_goal_async(goal)
            _until(sent.done, timeout_s, f"{name} to accept")
            result = sent.result().get_result_async()
            _until(result.done, timeout_s, f"{name} to end")
            return result.result().result
        finally:
            client.destroy()


def _until(condition, timeout_s: float, what: str) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
        time.sleep(0.01)


@pytest.fixture
def graph() -> Iterator[Graph]:
    graph = Graph(91)
    yield graph
    graph.close()


class Publisher:
    """Publishes frames as a camera node does."""

    def __init__(self, node: Node) -> None:
        self._stamps = Stamps(node)
        self._color = node.create_publisher(Image, COLOR_TOPIC, IMAGE_QOS)
        self._depth = node.create_publisher(Image, DEPTH_TOPIC, IMAGE_QOS)
        self._info = node.create_publisher(CameraInfo, COLOR_INFO_TOPIC, IMAGE_QOS)

    def publish(self, color_s: float, depth_s: float | None = None, encoding: str = "rgb8") -> None:
        stamp = self._stamps.to_ros(color_s)
        self._info.publish(camera_info(SMALL, stamp, OPTICAL_FRAME))
        self._color.publish(image_to_msg(COLOR, encoding, stamp, OPTICAL_FRAME))
        other = stamp if depth_s is None else self._stamps.to_ros(depth_s)
        self._depth.publish(image_to_msg(depth_to_mm(DEPTH), "16UC1", other, OPTICAL_FRAME))


@pytest.fixture
def topics(graph: Graph) -> tuple[RosCamera, Publisher]:
    camera, publisher = RosCamera(graph.node), Publisher(graph.node)
    _until(lambda: graph.node.count_subscribers(DEPTH_TOPIC) == 1, 5.0, "discovery")
    publisher.publish(time.monotonic())
    camera.wait_after(0.0, 5.0)
    return camera, publisher


def test_a_pair_arrives_in_metres_and_rgb_with_its_exposure_time(topics: tuple[RosCamera, Publisher]) -> None:
    camera, publisher = topics
    time.sleep(0.1)
    exposed = time.monotonic() - 0.040
    publisher.publish(exposed)
    frame = camera.wait_after(exposed - 0.01, 5.0)
    assert frame.stamp_s == pytest.approx(exposed, abs=0.002)
    assert frame.color[2, 2].tolist() == [200, 10, 20]
    assert frame.depth[2, 2] == pytest.approx(0.9, abs=5e-4)
    assert frame.intrinsics == SMALL
    assert camera.latest(1.0).number == frame.number


def test_colour_and_depth_of_different_instants_are_no_pair(topics: tuple[RosCamera, Publisher]) -> None:
    camera, publisher = topics
    before = camera.latest(10.0).stamp_s
    now = time.monotonic()
    publisher.publish(now, now - 0.066)
    with pytest.raises(StaleData):
        camera.wait_after(before, 0.5)


def test_an_old_frame_is_stale_with_its_age(topics: tuple[RosCamera, Publisher]) -> None:
    camera, _ = topics
    time.sleep(0.3)
    with pytest.raises(StaleData) as caught:
        camera.latest(0.25)
    assert 0.25 < caught.value.age_s < 5.0
    assert "/diagnostics" in str(caught.value)


def test_without_a_camera_node_the_topic_is_named(graph: Graph) -> None:
    with pytest.raises(StaleData, match=COLOR_INFO_TOPIC):
        RosCamera(graph.node).wait_after(0.0, 0.2)


def test_encodings_are_checked() -> None:
    stamp = Stamps(rclpy_clock()).now()
    bgr = image_to_msg(COLOR[..., ::-1], "bgr8", stamp, "")
    assert color_from_msg(bgr)[0, 0].tolist() == [200, 10, 20]
    metres = np.array([[0.5, np.nan], [np.inf, 0.0]], np.float32)
    back = depth_from_msg(image_to_msg(metres, "32FC1", stamp, ""))
    assert back[0, 0] == 0.5
    assert np.isnan(back).sum() == 3
    assert depth_to_mm(np.array([[0.5004, np.nan, 70.0, -1.0]], np.float32)).tolist() == [[500, 0, 0, 0]]
    with pytest.raises(Rejected, match="mono8"):
        color_from_msg(image_to_msg(COLOR[..., 0], "mono8", stamp, ""))
    with pytest.raises(Rejected, match="REP 118"):
        depth_from_msg(image_to_msg(COLOR[..., 0], "mono8", stamp, ""))


class rclpy_clock:
    """What Stamps needs of a node."""

    def get_clock(self) -> rclpy.clock.Clock:
        return rclpy.clock.Clock()


def start(module: str, domain: int, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "ROS_DOMAIN_ID": str(domain),
        "FASTDDS_DEFAULT_PROFILES_FILE": str(ROOT / "config" / "fastdds.xml"),
    }
    return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment)


@contextlib.contextmanager
def processes(domain: int, name: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Simulation, camera node and perception node."""
    running = [
        start("vlatools.sim.main", domain, "--scene", "simple", "--seed", "1", "--host", f"127.0.0.{domain}", "--domain", name),
        start(
            "vlatools.nodes.camera",
            domain,
            "--ros-args",
            *("-p", "source:=sim", "-p", "serial:=SIM-D435-0001", "-p", f"sim_domain:={name}"),
        ),
        start("vlatools.nodes.perception", domain),
    ]
    try:
        yield running
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait(30)


@pytest.mark.graph
@pytest.mark.slow
def test_the_camera_node_with_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDDS_DEFAULT_PROFILES_FILE", str(ROOT / "config" / "fastdds.xml"))
    graph = Graph(92)
    try:
        with processes(92, f"camera-test-{os.getpid()}") as running:
            check_graph(graph, running)
        assert [process.returncode for process in running[1:]] == [0, 0]
    finally:
        graph.close()


def check_graph(graph: Graph, running: list[subprocess.Popen[bytes]]) -> None:
    colors: list[int] = []
    infos: list[int] = []
    statuses: list[object] = []
    key = lambda m: m.header.stamp.sec * 10**9 + m.header.stamp.nanosec  # noqa: E731
    graph.node.create_subscription(Image, COLOR_TOPIC, lambda m: colors.append(key(m)), IMAGE_QOS)
    graph.node.create_subscription(CameraInfo, COLOR_INFO_TOPIC, lambda m: infos.append(key(m)), IMAGE_QOS)
    graph.node.create_subscription(
        DiagnosticArray, "/diagnostics", lambda m: statuses.extend(s for s in m.status if s.name == "camera"), 10
    )
    _until(lambda: len(colors) > 5, 60.0, "frames")

    # Every frame that is published arrives here, in another process: each has a camera_info, which is small.
    first = colors[-1]
    time.sleep(4.0)
    last = colors[-1]
    time.sleep(1.0)
    published = [stamp for stamp in infos if first <= stamp <= last]
    assert [stamp for stamp in colors if first <= stamp <= last] == published
    assert len(published) > 10

    shot = graph.call(CaptureRgbd, "/camera/capture", CaptureRgbd.Goal(timeout=20.0))
    assert shot.outcome == "COMPLETED", shot.message
    assert (shot.color.encoding, shot.depth.encoding, shot.points.width, shot.points.height) == ("rgb8", "32FC1", 640, 480)
    assert shot.color.header.frame_id == OPTICAL_FRAME
    points = np.frombuffer(shot.points.data, np.float32).reshape(480, 640, 3)
    assert abs(float(np.nanmedian(points[300:400, 200:440, 2]))) < 0.005  # the table

    unsettled = graph.call(CaptureRgbd, "/camera/capture", CaptureRgbd.Goal(wait_for_standstill=True, timeout=0.5))
    assert unsettled.outcome == "TIMEOUT"
    assert "/arm/state" in unsettled.message

    found = graph.call(Locate, "/perception/locate", Locate.Goal(names=["red cube", "left bowl", "green cube"], timeout=20.0))
    assert found.outcome == "COMPLETED", found.message
    assert sorted(thing.name for thing in found.objects) == ["left bowl", "red cube"]
    assert list(found.missing) == ["green cube"]
    red = next(thing for thing in found.objects if thing.name == "red cube")
    named = graph.call(Segment, "/perception/segment", Segment.Goal(prompt="red cube", timeout=20.0))
    assert named.found
    assert abs(named.position.x - red.pose.position.x) < 0.03
    row, col = named.box.y_offset + named.box.height // 2, named.box.x_offset + named.box.width // 2
    pointed = graph.call(Segment, "/perception/segment", Segment.Goal(use_point=True, row=row, col=col, timeout=20.0))
    assert pointed.message == "red cube"
    off = graph.call(Segment, "/perception/segment", Segment.Goal(use_point=True, row=480, col=0, timeout=20.0))
    assert off.outcome == "REJECTED"

    # The simulation goes away: the camera says so, and a look ends in time.
    running[0].send_signal(signal.SIGTERM)
    running[0].wait(30)
    time.sleep(1.5)
    lost = graph.call(Locate, "/perception/locate", Locate.Goal(timeout=1.0))
    assert lost.outcome == "STALE_OBSERVATION", lost.message
    _until(lambda: bool(statuses) and statuses[-1].level == b"\x02", 40.0, "an ERROR on /diagnostics")
    assert "simulation" in statuses[-1].message or "no frames" in statuses[-1].message
