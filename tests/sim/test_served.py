"""The served simulation as franky meets it: true poses, tracking, reflexes, recovery, reconnection, an honest gripper."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import franky
import numpy as np
import pytest
from numpy.typing import NDArray

from vlatools.core import Pose
from vlatools.robot.config import RobotConfig
from vlatools.robot.model import Fr3Model
from vlatools.shared_clock import SharedClock
from vlatools.sim.control import SimControl, SimControlError, default_address
from vlatools.sim.franky_state import ERRORS
from vlatools.sim.shared_renderer import SharedRenderer

HOME = [0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398]
HOST = f"127.{os.getpid() % 199 + 20}.{os.getpid() // 199 % 250}.7"
DOMAIN = f"test-served-{os.getpid()}"


@dataclass
class Served:
    """A running simulation."""

    process: subprocess.Popen[str]
    control: SimControl


def start(host: str, domain: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vlatools.sim.main", "--host", host, "--domain", domain, "--seed", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    process = start(HOST, DOMAIN)
    assert process.stdout is not None and HOST in process.stdout.readline()
    yield Served(process, SimControl(default_address(DOMAIN)))
    process.send_signal(signal.SIGTERM)
    assert process.wait(10.0) == 0
    assert process.stderr is not None and "Traceback" not in process.stderr.read()
    for suffix in ("state", "json", "clock"):
        os.unlink(f"/dev/shm/vlatools-{DOMAIN}.{suffix}")


@pytest.fixture
def control(served: Served) -> SimControl:
    served.control.drop_connection()
    served.control.user_stop(False)
    served.control.gripper_hang(False)
    served.control.reset(1, "simple")
    return served.control


def connect() -> franky.Robot:
    """A connection; that of the test before may take a moment to go."""
    for _ in range(50):
        try:
            robot = franky.Robot(HOST, realtime_config=franky.RealtimeConfig.Ignore)
            break
        except franky.NetworkException:
            time.sleep(0.1)
    else:
        raise AssertionError("no connection within 5 s")
    robot.relative_dynamics_factor = 0.3
    robot.set_collision_behavior(40.0, 60.0)
    return robot


@pytest.fixture
def robot(control: SimControl) -> franky.Robot:
    return connect()


def track(robot: franky.Robot, control: SimControl) -> franky.JointImpedanceTracker:
    config = RobotConfig()
    tracker = franky.JointImpedanceTracker(robot, stiffness=np.array(config.stiffness), damping=np.array(config.damping))
    wait_for(lambda: control.info()["moving"], 2.0)
    return tracker


def wait_for(condition: Callable[[], bool], timeout_s: float) -> float:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < timeout_s, f"not within {timeout_s} s"
        time.sleep(0.005)
    return time.monotonic() - begin


def test_the_reported_pose_is_the_true_one_after_every_kind_of_motion(robot: franky.Robot, control: SimControl) -> None:
    for motion in (
        franky.JointMotion([0.2, *HOME[1:]]),
        franky.CartesianMotion(franky.Affine([0.5, 0.1, 0.4], [1.0, 0.0, 0.0, 0.0])),
        franky.JointVelocityMotion([0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], duration=franky.Duration(300)),
        franky.CartesianVelocityMotion(franky.Twist([0.05, 0.0, 0.0]), duration=franky.Duration(300)),
    ):
        robot.move(motion)
        time.sleep(0.6)
        for _ in range(200):  # states that queued up while nobody read
            pose = robot.state.O_T_EE
        truth = control.truth().ee
        assert np.linalg.norm(np.array(pose.translation) - truth.position) < 1e-4
    robot.move(franky.CartesianMotion(franky.Affine([0.5, 0.1, 0.4], [1.0, 0.0, 0.0, 0.0])))
    time.sleep(0.5)
    truth = control.truth().ee
    assert np.linalg.norm(truth.position - [0.5, 0.1, 0.4]) < 2e-3
    speeds = np.array([robot.state.dq for _ in range(100)])
    assert np.abs(speeds).max() < 0.005  # no limit cycle


def test_the_impedance_tracker_follows_at_50_hz(robot: franky.Robot, control: SimControl) -> None:
    tracker, q0 = track(robot, control), np.array(robot.current_joint_positions)
    begin = tracker.state.time.to_sec()

    def swing(t: float) -> float:
        return float(0.1 * (1.0 - np.cos(2.0 * t)))

    errors = []
    # On the robot's own time, so that the test means the same on a busy machine.
    while (t := (state := tracker.state).time.to_sec() - begin) < 3.0:
        errors.append(np.array(state.q) - q0 - swing(t))
        tracker.set_target(q0 + swing(t), np.full(7, 0.2 * np.sin(2.0 * t)))
        time.sleep(0.02)
    tracker.stop()
    assert np.sqrt((np.array(errors) ** 2).mean(axis=0))[:6].max() < 0.025
    assert np.abs(robot.state.dq).max() < 0.02
    assert control.info()["tick_ms"] < 0.6  # of CPU; 0.2 where the machine is free


def test_pressing_into_the_table_is_a_reflex_that_can_be_recovered(robot: franky.Robot, control: SimControl) -> None:
    above = Fr3Model().ik(Pose.pointing_down([0.5, 0.0, 0.08]).matrix, np.array(HOME)).q
    robot.move(franky.JointMotion(above))
    down = franky.CartesianMotion(franky.Affine([0.0, 0.0, 0.12]), franky.ReferenceType.Relative)
    with pytest.raises(franky.ControlException, match="reflex"):
        robot.move(down)
    assert robot.has_errors
    with pytest.raises(franky.CommandException):
        robot.move(franky.JointMotion(above))
    assert robot.recover_from_errors() and not robot.has_errors
    robot.move(franky.JointMotion(above))
    assert control.truth().ee.position[2] == pytest.approx(0.08, abs=0.01)


def test_the_force_of_the_world_is_reported(robot: franky.Robot, control: SimControl) -> None:
    touch = Fr3Model().ik(Pose.pointing_down([0.5, 0.0, 0.006]).matrix, np.array(HOME)).q
    robot.move(franky.JointMotion(Fr3Model().ik(Pose.pointing_down([0.5, 0.0, 0.05]).matrix, np.array(HOME)).q))
    tracker, q = track(robot, control), np.array(robot.current_joint_positions)
    for step in range(60):
        tracker.set_target(q + (touch - q) * min(1.0, step / 50))
        time.sleep(0.02)
    state = tracker.state
    assert state.O_F_ext_hat_K[2] > 3.0 and np.abs(state.tau_ext_hat_filtered).max() > 0.5
    tracker.set_target(q)
    time.sleep(1.0)
    assert np.abs(tracker.state.O_F_ext_hat_K).max() < 0.5
    tracker.stop()


@pytest.mark.parametrize("error", list(ERRORS))
def test_each_error_carries_its_own_name(robot: franky.Robot, control: SimControl, error: str) -> None:
    tracker = track(robot, control)
    control.reflex(error)
    wait_for(lambda: not robot.is_in_control, 1.0)
    with pytest.raises(franky.ControlException, match=error):
        tracker.stop()
    if error == "joint_position_limits_violation":
        assert not recovers(robot)
        control.reset(1)
    else:
        assert recovers(robot)
    robot.move(franky.JointMotion([0.1, *HOME[1:]]))


def recovers(robot: franky.Robot) -> bool:
    try:
        return bool(robot.recover_from_errors())
    except franky.CommandException:
        return False


def test_the_user_stop_ends_a_motion_and_forbids_the_next(robot: franky.Robot, control: SimControl) -> None:
    tracker = track(robot, control)
    control.user_stop(True)
    wait_for(lambda: not robot.is_in_control, 1.0)
    with pytest.raises(franky.ControlException, match="safety"):
        tracker.stop()
    with pytest.raises(franky.CommandException, match="safety"):
        robot.move(franky.JointMotion(HOME))
    control.user_stop(False)
    time.sleep(0.1)
    robot.move(franky.JointMotion([0.1, *HOME[1:]]))  # commands of the motion before must not reach this one


_CLIENT = f"""
import franky, time
robot = franky.Robot("{HOST}", realtime_config=franky.RealtimeConfig.Ignore)
robot.relative_dynamics_factor = 0.1
robot.move(franky.JointMotion([1.0, *{HOME[1:]}]), asynchronous=True)
print("moving", flush=True)
time.sleep(60)
"""


@pytest.fixture
def client(control: SimControl) -> Iterator[subprocess.Popen[str]]:
    wait_for(lambda: not control.info()["client"], 5.0)
    process = subprocess.Popen([sys.executable, "-c", _CLIENT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "moving\n"
    wait_for(lambda: control.info()["moving"], 2.0)
    time.sleep(0.3)
    yield process
    process.kill()
    process.wait()


def test_a_killed_client_stops_the_arm_and_the_next_connects_at_once(client: subprocess.Popen[str], control: SimControl) -> None:
    client.kill()
    begin = time.monotonic()
    franky.Robot(HOST, realtime_config=franky.RealtimeConfig.Ignore)
    assert time.monotonic() - begin < 1.0
    time.sleep(0.4)
    q = control.truth().q
    assert 0.0 < q[0] < 0.5
    time.sleep(0.3)
    assert np.abs(control.truth().q - q).max() < 1e-3


def test_a_second_client_is_refused_and_does_not_disturb_the_first(client: subprocess.Popen[str], control: SimControl) -> None:
    begin = time.monotonic()
    with pytest.raises(franky.NetworkException):
        franky.Robot(HOST, realtime_config=franky.RealtimeConfig.Ignore)
    assert time.monotonic() - begin < 2.0
    assert control.info()["moving"]


def test_a_client_that_hangs_ends_its_motion(client: subprocess.Popen[str], control: SimControl) -> None:
    client.send_signal(signal.SIGSTOP)
    wait_for(lambda: control.info()["errors"] == ["communication_constraints_violation"], 5.0)
    wait_for(lambda: not control.info()["moving"], 5.0)


def test_a_cut_connection_ends_the_motion_and_a_new_robot_works(robot: franky.Robot, control: SimControl) -> None:
    tracker = track(robot, control)
    control.drop_connection()
    wait_for(lambda: not robot.is_in_control, 3.0)
    with pytest.raises((franky.NetworkException, franky.ControlException, RuntimeError)):
        tracker.stop()
    connect().move(franky.JointMotion([0.1, *HOME[1:]]))


def test_a_grasp_is_true_to_what_is_held(robot: franky.Robot, control: SimControl) -> None:
    gripper = franky.Gripper(HOST)
    assert not gripper.grasp(0.0, 0.05, 40.0, 0.08, 0.08)  # nothing there
    assert not gripper.state.is_grasped and gripper.width < 1e-3
    assert gripper.open(0.05)
    cube = control.truth().objects["red cube"].pose
    pose = Pose.pointing_down(cube.position, cube.yaw)
    q = Fr3Model().ik(pose.matrix, np.array(HOME)).q
    robot.move(franky.JointMotion(Fr3Model().ik(Pose.pointing_down([*cube.position[:2], 0.1], cube.yaw).matrix, q).q))
    robot.move(franky.JointMotion(q))
    assert gripper.grasp(0.04, 0.05, 40.0, 0.005, 0.005)
    assert gripper.width == pytest.approx(0.04, abs=1e-3)
    wait_for(lambda: bool(gripper.state.is_grasped), 1.0)
    robot.move(franky.JointMotion(HOME))
    held = control.truth()
    assert held.objects["red cube"].held and held.objects["red cube"].pose.distance_to(held.ee) < 0.01
    control.knock("red cube", np.zeros(3))
    wait_for(lambda: not gripper.state.is_grasped, 3.0)


_HANGING = f"""
import franky, os
gripper = franky.Gripper("{HOST}")
print(gripper.move_async(0.02, 0.05).wait(1.5), flush=True)
os._exit(0)  # franky waits for a minute for a command that got no answer
"""


def test_a_gripper_that_hangs_hangs_and_then_works_again(control: SimControl) -> None:
    control.gripper_hang(True)
    client = subprocess.run([sys.executable, "-c", _HANGING], capture_output=True, text=True, timeout=60.0)
    assert client.stdout == "False\n"
    assert control.truth().gripper_width == pytest.approx(0.08, abs=1e-3)
    control.gripper_hang(False)
    assert franky.Gripper(HOST).move(0.02, 0.05)
    assert control.truth().gripper_width == pytest.approx(0.02, abs=1e-3)


def has_blue(color: NDArray[np.uint8]) -> bool:
    """The blue cube, which only the long scene has, is in the RGB picture."""
    blue = color.astype(int)
    return bool(((blue[..., 2] > 1.8 * blue[..., 0]) & (blue[..., 2] > 80)).sum() > 200)


def test_a_reset_of_another_scene_reaches_the_camera(control: SimControl) -> None:
    camera, clock = SharedRenderer(DOMAIN), SharedClock(DOMAIN)
    first = camera.render()
    assert first is not None and not has_blue(first.color)
    assert -0.1 < clock.now() - first.stamp_s < 1.5
    control.reset(2, "long")
    wait_for(lambda: (picture := camera.render()) is not None and has_blue(picture.color), 5.0)
    clock.close()
    control.freeze_camera(True)
    assert camera.render() is None
    camera.close()


def test_control_says_what_is_wrong(control: SimControl) -> None:
    with pytest.raises(SimControlError, match="no object 'green cube'"):
        control.teleport("green cube", Pose.identity())
    with pytest.raises(SimControlError, match="conditioned, long, simple"):
        control.reset(0, "kitchen")
    with pytest.raises(SimControlError, match="vlatools sim"):
        SimControl("unix:/tmp/vlatools-nowhere.sock").info()


def test_a_taken_address_and_domain_are_clear_errors(served: Served) -> None:
    for host, domain, words in ((HOST, f"{DOMAIN}-b", "Another simulation may run there"), ("127.1.2.3", DOMAIN, "domain")):
        process = start(host, domain)
        _, error = process.communicate(timeout=20.0)
        assert process.returncode == 2 and words in error and "Traceback" not in error
    for suffix in ("state", "json", "clock"):
        path = f"/dev/shm/vlatools-{DOMAIN}-b.{suffix}"
        if os.path.exists(path):
            os.unlink(path)
