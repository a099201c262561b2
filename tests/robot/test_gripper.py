"""The gripper: judged by width and force, never blocking, late results discarded."""

import threading
import time

import numpy as np
import pytest

from vlatools.core import ArmFault, CancelToken, MonotonicClock, Outcome
from vlatools.robot.gripper_worker import GripperWorker
from vlatools.robot.ports import Grasp, GripperState, MoveTo, Release, SetGripper


def test_grasp_is_judged_by_width_and_is_idempotent(rig):
    """C19, C20."""
    rig.fingers.object_width = 0.031
    result = rig.arm.run(Grasp())
    assert result.reached
    assert result.gripper_width == pytest.approx(0.031, abs=1e-3)
    assert rig.arm.state().gripper_holding
    again = rig.arm.run(Grasp())
    assert again.reached
    assert again.reason == "already_holding"
    assert len(rig.fingers.commands) == 1


def test_an_empty_grasp_is_no_success(rig):
    """C49."""
    result = rig.arm.run(Grasp())
    assert (result.outcome, result.reason, result.reached) == (Outcome.TIMEOUT, "empty_grasp", False)
    assert not rig.arm.state().gripper_holding


def test_an_object_that_slips_out_is_noticed(rig):
    rig.fingers.object_width = 0.04
    rig.arm.run(Grasp())
    rig.fingers._width = 0.0
    assert not rig.arm.state().gripper_holding


def test_release_is_verified_and_tried_again(rig):
    """C27."""
    rig.fingers.object_width = 0.04
    rig.arm.run(Grasp())
    rig.fingers.ignore_moves = 1
    assert rig.arm.run(Release()).reached
    assert [command[0] for command in rig.fingers.commands] == ["grasp", "move", "move"]
    rig.arm.run(Grasp())
    rig.fingers.ignore_moves = 5
    result = rig.arm.run(Release())
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, "tolerance")


@pytest.mark.parametrize("width", [0.0, 0.03, 0.08])
def test_the_unit_is_the_full_opening_in_metres(rig, width):
    """C23, C24."""
    assert rig.arm.run(SetGripper(width)).gripper_width == pytest.approx(width, abs=1e-3)


@pytest.mark.parametrize("primitive", [SetGripper(0.2), SetGripper(-0.01), Grasp(force=500.0), Release(width=np.nan)])
def test_nonsense_is_refused_with_the_limit(rig, primitive):
    result = rig.arm.run(primitive)
    assert result.outcome is Outcome.REJECTED
    assert result.reason == "bad_argument"
    assert rig.fingers.commands == []


def test_a_gripper_that_hangs_ends_by_its_deadline(rig):
    """C22."""
    rig.fingers.hangs = True
    begin = rig.clock.now()
    result = rig.arm.run(Grasp(timeout_s=2.0))
    assert (result.outcome, result.reason) == (Outcome.FAULT, "gripper_timeout")
    assert rig.clock.now() - begin < 2.2
    assert rig.arm.run(MoveTo(np.array([0.4, 0.0, 0.4]))).reached  # the arm is not affected


def test_a_gripper_error_is_told(rig):
    """C26."""
    rig.fingers.error = "gripper_failed: grasp at 79 mm: command rejected"
    result = rig.arm.run(Grasp())
    assert (result.outcome, result.reason) == (Outcome.FAULT, "gripper_failed")
    assert "79 mm" in result.message


def test_a_gripper_primitive_can_be_canceled(rig):
    rig.fingers.hangs = True
    token = CancelToken()
    rig.clock.every(0.3, token.cancel)
    assert rig.arm.run(Grasp(), cancel=token).outcome is Outcome.CANCELED


class SlowDriver:
    """A blocking driver: move blocks until ``go`` is set."""

    def __init__(self):
        self.go, self.calls, self.stops = threading.Event(), [], 0
        self.read_s, self.failure = 0.0, None

    def read(self):
        time.sleep(self.read_s)
        return GripperState(time.monotonic(), 0.05)

    def move(self, width, speed):
        self.calls.append(width)
        self.go.wait(5)
        if self.failure is not None:
            raise self.failure
        return True

    def grasp(self, force, speed):
        self.calls.append("grasp")
        self.go.wait(5)
        return False  # the firmware's opinion does not matter

    def stop(self):
        self.stops += 1


@pytest.fixture
def worker():
    driver = SlowDriver()
    made = GripperWorker(driver, MonotonicClock(), read_rate_hz=50.0, deadline_s=0.3)
    yield driver, made
    driver.go.set()
    made.close()


def wait_for(condition, timeout=2.0):
    end = time.monotonic() + timeout
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_the_worker_never_blocks_its_caller(worker):
    """C21, C25."""
    driver, gripper = worker
    driver.read_s = 0.5
    begin = time.monotonic()
    gripper.move(0.08, 0.1)
    for _ in range(100):
        gripper.status()
    assert gripper.status().busy
    gripper.stop()
    assert not gripper.status().busy
    assert time.monotonic() - begin < 0.1


def test_a_late_result_is_discarded(worker):
    driver, gripper = worker
    first = gripper.move(0.08, 0.1)
    wait_for(lambda: driver.calls == [0.08])
    driver.failure = ArmFault("gripper_failed", "too late")
    second = gripper.grasp(40.0, 0.1)
    assert second == first + 1
    driver.go.set()
    wait_for(lambda: not gripper.status().busy)
    assert gripper.status().error == ""
    assert gripper.status().command_id == second
    assert driver.calls == [0.08, "grasp"]
    assert driver.stops == 1


def test_a_command_that_never_returns_ends_by_the_deadline(worker):
    driver, gripper = worker
    gripper.move(0.08, 0.1)
    wait_for(lambda: not gripper.status().busy)
    assert gripper.status().error.startswith("gripper_timeout: move to 80.0 mm")
    driver.go.set()
    time.sleep(0.05)
    assert gripper.status().error.startswith("gripper_timeout")


def test_a_driver_error_becomes_the_commands_error(worker):
    driver, gripper = worker
    driver.failure = RuntimeError("boom")
    driver.go.set()
    gripper.move(0.05, 0.1)
    wait_for(lambda: not gripper.status().busy)
    assert "gripper_error" in gripper.status().error
    assert "boom" in gripper.status().error
    driver.failure = None
    gripper.move(0.06, 0.1)
    wait_for(lambda: not gripper.status().busy)
    assert gripper.status().error == ""
