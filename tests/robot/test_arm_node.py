"""The arm node as a process on the served lab, seen through RosArm by another process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from vlatools.core import (
    ActionChunk,
    ActionSpace,
    ArmFault,
    CancelToken,
    Outcome,
    Pose,
    StaleData,
)
from vlatools.robot.ports import (
    ArmMode,
    FollowWaypoints,
    Grasp,
    Home,
    MoveJoints,
    MovePose,
    MoveTo,
    Release,
    Retreat,
    RotatePitch,
    RotateWrist,
    SetGripper,
)

FAR = MoveTo(np.array([0.55, 0.25, 0.2]))
HOME = np.array([0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398])


def test_the_arms_process_imports_neither_camera_nor_torch_nor_a_simulator():
    """C4."""
    pytest.importorskip("rclpy")
    script = (
        "import sys, vlatools.nodes.arm; bad = [m for m in ('torch', 'pyrealsense2', 'mujoco', 'franky_sim', 'cv2', "
        "'vlatools.sim', 'vlatools.camera.realsense') if m in sys.modules]; print(bad); sys.exit(bool(bad))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def domain() -> int:
    return 120 + os.getpid() % 80


class Bench:
    """The arm node, its lab, and a client node that is spun beside the test."""

    def __init__(self, domain: int) -> None:
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from rclpy.executors import SingleThreadedExecutor
        from sensor_msgs.msg import JointState
        from vlatools_interfaces.msg import InvocationRecord

        from vlatools.nodes.ros_arm import RosArm
        from vlatools.sim.control import SimControl, default_address

        self._env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._host, self._name = f"127.0.{domain}.7", f"arm{os.getpid()}"
        self.control = SimControl(default_address(self._name))
        self.sim, self.node = self.start_sim(), self._start_node()
        self._owns = not rclpy.ok()
        if self._owns:
            rclpy.init()
        self.client = rclpy.create_node(f"client_{os.getpid()}")
        self.joints: list[tuple[float, JointState]] = []
        self.log: list[InvocationRecord] = []
        self.diagnostics: list[DiagnosticArray] = []
        self.client.create_subscription(JointState, "/joint_states", lambda m: self.joints.append((time.monotonic(), m)), 10)
        self.client.create_subscription(InvocationRecord, "/primitives/log", self.log.append, 50)
        self.client.create_subscription(DiagnosticArray, "/diagnostics", self.diagnostics.append, 10)
        self.arm = RosArm(self.client)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.client)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def start_sim(self) -> subprocess.Popen:
        command = [sys.executable, "-m", "vlatools.sim.main", "--scene", "simple", "--host", self._host, "--domain", self._name]
        return subprocess.Popen(command, env=self._env)

    def _start_node(self) -> subprocess.Popen:
        command = [sys.executable, "-m", "vlatools.nodes.arm", "--ros-args", "-p", f"robot_ip:={self._host}"]
        return subprocess.Popen(command, env=self._env)

    def _spin(self) -> None:
        while not self._ending.is_set():
            self._executor.spin_once(timeout_sec=0.05)

    def ready(self, timeout: float = 30.0) -> bool:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            with contextlib.suppress(StaleData):
                state = self.arm.state()
                if state.ready and np.isfinite(state.gripper_width):
                    return True
            time.sleep(0.05)
        return False

    def close(self) -> None:
        import rclpy

        self._ending.set()
        self._thread.join(timeout=2.0)
        for process in (self.node, self.sim):
            process.terminate()
            try:
                process.wait(timeout=8.0)
            except subprocess.TimeoutExpired:
                process.kill()
        self.client.destroy_node()
        if self._owns:
            rclpy.try_shutdown()


@pytest.fixture(scope="module")
def made(domain) -> Iterator[Bench]:
    pytest.importorskip("vlatools.sim.main")
    os.environ["ROS_DOMAIN_ID"] = str(domain)
    bench = Bench(domain)
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture
def bench(made) -> Bench:
    assert made.ready()
    assert made.arm.run(Home()).reached
    return made


graph = pytest.mark.graph


def wait_for(condition: Callable[[], bool], timeout: float = 6.0) -> bool:
    """Whether ``condition`` came true in time; the machine is shared, so nothing is expected at a moment."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@graph
@pytest.mark.parametrize(
    "primitive",
    [
        MoveTo(np.array([0.45, 0.1, 0.3]), yaw=0.3),
        MovePose(Pose.pointing_down([0.45, 0.0, 0.25], 0.3, 0.2)),
        MoveJoints(HOME + 0.1),
        FollowWaypoints(tuple(Pose.pointing_down(p) for p in ([0.45, 0.1, 0.4], [0.45, -0.1, 0.4]))),
        RotateWrist(0.4, relative=True),
        RotatePitch(0.2),
        Retreat(0.08),
        Home(),
        SetGripper(0.04),
        Release(),
    ],
    ids=lambda primitive: type(primitive).__name__,
)
def test_every_primitive_is_an_action_with_a_measured_result_and_a_record(bench, primitive):
    bench.log.clear()
    told = []
    result = bench.arm.run(primitive, on_feedback=told.append)
    assert result.reached, result
    assert result.outcome is Outcome.COMPLETED
    assert result.final_q is not None
    assert wait_for(lambda: len(bench.log) >= 2)
    started, finished = bench.log[-2:]
    assert started.event == started.STARTED
    assert (finished.event, finished.outcome) == (finished.FINISHED, "COMPLETED")
    assert started.invocation_id == finished.invocation_id
    assert isinstance(json.loads(started.arguments_json), dict)


@graph
def test_an_empty_grasp_and_a_refusal_come_back_with_their_reasons(bench):
    assert bench.arm.run(Grasp()).reason == "empty_grasp"
    assert bench.arm.run(Release()).reached
    refused = bench.arm.run(MoveTo(np.array([2.0, 0.0, 0.2])))
    assert (refused.outcome, refused.reason) == (Outcome.REJECTED, "workspace")
    assert "0.78" in refused.message


@graph
@pytest.mark.parametrize("after", [0.0, 0.02, 0.3, 0.9])
def test_cancel_at_any_time_ends_with_a_measured_standstill(bench, after):
    token = CancelToken()
    timer = threading.Timer(after, token.cancel)
    timer.start()
    begin = time.monotonic()
    result = bench.arm.run(FAR, cancel=token)
    timer.join()
    assert result.outcome is Outcome.CANCELED, result
    assert time.monotonic() - begin < after + 2.0
    assert bench.arm.wait_standstill(1.0)


@graph
def test_a_newer_goal_preempts(bench):
    older: list = []
    thread = threading.Thread(target=lambda: older.append(bench.arm.run(FAR)))
    thread.start()
    time.sleep(0.4)
    assert bench.arm.run(MoveTo(np.array([0.4, -0.1, 0.4]))).reached
    thread.join(timeout=5.0)
    assert older[0].outcome is Outcome.PREEMPTED


@graph
def test_a_stream_over_ros_arrives_and_is_given_up(bench):
    state = bench.arm.state()
    rows = np.zeros((10, 8))
    rows[:, :3] = state.ee.position + np.arange(1, 11)[:, None] / 10 * np.array([0.1, 0.1, -0.05])
    rows[:, 3:7], rows[:, 7] = state.ee.quat_xyzw, 0.08
    bench.arm.send_chunk(ActionChunk("over-ros", 0, ActionSpace.EE_POSE, state.stamp_s, 0.1, rows))
    assert wait_for(lambda: bench.arm.state().mode is ArmMode.STREAMING)
    assert wait_for(lambda: np.linalg.norm(bench.arm.state().ee.position - rows[-1, :3]) < 0.003)
    bench.arm.hold()
    assert bench.arm.wait_standstill(2.0)
    assert wait_for(lambda: bench.arm.state().mode is ArmMode.IDLE)
    bench.arm.send_chunk(ActionChunk("over-ros", 1, ActionSpace.EE_POSE, time.monotonic(), 0.1, rows))
    assert wait_for(lambda: bench.arm.state().stream.refused.startswith("ended"))


@graph
def test_stop_over_ros_latches(bench):
    assert bench.arm.stop("test")
    assert bench.arm.run(Home()).reason == "stopped"
    bench.arm.clear_stop()
    assert bench.arm.run(Home()).reached


@graph
def test_a_reflex_is_told_and_recovered(bench):
    timer = threading.Timer(0.6, bench.control.reflex)
    timer.start()
    result = bench.arm.run(FAR)
    timer.join()
    assert (result.outcome, result.reason) == (Outcome.FAULT, "reflex"), result
    with pytest.raises(ArmFault, match="allow_collision"):
        bench.arm.recover()
    assert bench.arm.recover(allow_collision=True) == ("cartesian_reflex",)
    assert bench.ready(5.0)
    assert bench.arm.run(Home()).reached


@graph
def test_rates_and_diagnostics(bench):
    count = len(bench.joints)
    time.sleep(2.0)
    assert len(bench.joints) - count > 60  # 50 Hz nominal; the machine is shared
    message = bench.joints[-1][1]
    assert message.name[:2] == ["fr3_joint1", "fr3_joint2"]
    assert len(message.position) == 9
    status = bench.diagnostics[-1].status[0]
    assert status.message == "ready"
    assert {"mode", "control_rate_hz", "success_rate"} <= {value.key for value in status.values}


@graph
def test_a_robot_that_vanishes_is_silent_and_comes_back(bench):
    """C8: no joint states without a robot; the node lives on and connects again."""
    bench.sim.send_signal(signal.SIGKILL)
    bench.sim.wait()
    time.sleep(2.0)
    count = len(bench.joints)
    time.sleep(1.0)
    assert len(bench.joints) == count
    with pytest.raises(StaleData, match="DISCONNECTED"):
        bench.arm.state()
    assert bench.arm.run(Home()).reason == "disconnected"
    bench.sim = bench.start_sim()
    assert bench.ready(30.0)
    assert bench.arm.run(Home()).reached


@graph
def test_sigterm_ends_the_running_goal_with_a_result(bench):
    """C35. The last test: the node is gone afterwards."""
    results: list = []
    thread = threading.Thread(target=lambda: results.append(bench.arm.run(FAR)))
    thread.start()
    time.sleep(0.6)
    bench.node.send_signal(signal.SIGTERM)
    assert bench.node.wait(timeout=10.0) == 0
    thread.join(timeout=8.0)
    assert results
    assert results[0].outcome in (Outcome.CANCELED, Outcome.FAULT), results[0]
