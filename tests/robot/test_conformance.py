"""One suite for every servo and gripper that the arm may stand on: the doubles, the lock-step lab, franky on the served lab."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from doubles import FakeGripper, FakeServo, TickClock

from vlatools.core import ActionChunk, ActionSpace, ArmFault, CancelToken, ChunkRefused, Clock, MonotonicClock, Outcome
from vlatools.robot.config import ArmConfig
from vlatools.robot.controller import ArmController
from vlatools.robot.ports import ArmMode, Grasp, Home, MoveTo, Release, SetGripper


@dataclass
class Stand:
    """An arm on one of its foundations, and how to hurt it there."""

    name: str
    arm: ArmController
    clock: Clock
    later: Callable[[float, Callable[[], object]], None]
    reflex: Callable[[], object]
    cut: Callable[[], object]
    mend: Callable[[], object]

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        end = self.clock.now() + timeout
        while not condition() and self.clock.now() < end:
            self.clock.sleep(0.02)
        return condition()

    def ready(self) -> bool:
        return self.arm.refusal() is None


def on_doubles() -> Iterator[Stand]:
    clock = TickClock()
    servo, config = FakeServo(clock), ArmConfig()
    arm = ArmController(servo, FakeGripper(clock), config, clock, background=lambda work: work())
    clock.every(config.period_s, arm.tick)

    def later(seconds: float, work: Callable[[], None]) -> None:
        done: list[int] = []
        clock.every(seconds, lambda: done or (done.append(1), work()))

    def cut() -> None:
        servo.disconnected, servo.reconnect_fails = True, 1

    yield Stand("doubles", arm, clock, later, lambda: setattr(servo, "errors", ("cartesian_reflex",)), cut, lambda: None)


def on_lockstep() -> Iterator[Stand]:
    lockstep = pytest.importorskip("vlatools.sim.lockstep")
    lab, config = lockstep.LockstepLab("simple", seed=1), ArmConfig()
    arm = ArmController(lab.servo, lab.gripper, config, lab.clock, background=lambda work: work())
    lab.clock.every(config.period_s, arm.tick)
    yield Stand(
        "lockstep",
        arm,
        lab.clock,
        lab.clock.at,
        lambda: lab.servo.trip("cartesian_reflex"),
        lambda: lab.servo.set_connected(False),
        lambda: lab.servo.set_connected(True),
    )
    lab.close()


def on_served() -> Iterator[Stand]:
    pytest.importorskip("vlatools.sim.main")
    from vlatools.robot.franky_gripper import FrankyGripper
    from vlatools.robot.franky_servo import FrankyServo
    from vlatools.robot.gripper_worker import GripperWorker
    from vlatools.sim.control import SimControl, default_address

    host = f"127.0.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 200 + 20}"
    domain = f"t{os.getpid()}"
    command = [sys.executable, "-m", "vlatools.sim.main", "--scene", "simple", "--host", host, "--domain", domain]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    clock, config = MonotonicClock(), ArmConfig()
    gripper = GripperWorker(FrankyGripper(host, clock), clock, config.gripper.read_rate_hz)
    arm = ArmController(FrankyServo(host, config, clock), gripper, config, clock)
    ending = threading.Event()
    loop = threading.Thread(target=arm.spin, args=(ending,), daemon=True)
    loop.start()
    control = SimControl(default_address(domain))
    stand = Stand(
        "served",
        arm,
        clock,
        lambda seconds, work: threading.Timer(seconds, work).start(),
        control.reflex,
        control.drop_connection,
        lambda: None,
    )
    try:
        assert stand.wait(lambda: stand.ready() and np.isfinite(arm.gripper.width), 20.0), arm.refusal()
        yield stand
    finally:
        arm.close()
        ending.set()
        loop.join(timeout=2.0)
        process.terminate()
        try:
            process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture(
    scope="module",
    params=[on_doubles, on_lockstep, pytest.param(on_served, marks=pytest.mark.graph)],
    ids=lambda made: made.__name__,
)
def shared(request) -> Iterator[Stand]:
    yield from request.param()


@pytest.fixture
def stand(shared) -> Stand:
    """Ready, at home, fingers open, whatever the test before left behind."""
    if shared.arm.mode() is ArmMode.REFLEX:
        shared.arm.recover(allow_collision=True)
    assert shared.wait(shared.ready, 10.0), shared.arm.refusal()
    home = shared.arm.run(Home())
    assert home.reached, home
    shared.arm.run(Release())
    return shared


def line(stand: Stand, target: np.ndarray, name: str, rows: int = 10, dt: float = 0.1) -> ActionChunk:
    state = stand.arm.state()
    values = np.zeros((rows, 8))
    values[:, :3] = state.ee.position + np.arange(1, rows + 1)[:, None] / rows * (target - state.ee.position)
    values[:, 3:7], values[:, 7] = state.ee.quat_xyzw, 0.08
    return ActionChunk(name, 0, ActionSpace.EE_POSE, state.stamp_s, dt, values)


def test_state_is_fresh_complete_and_advances(stand):
    first = stand.arm.state()
    stand.clock.sleep(0.1)
    second = stand.arm.state()
    assert second.stamp_s > first.stamp_s
    assert stand.clock.now() - second.stamp_s < 0.1
    assert np.all(np.isfinite(second.q))
    assert second.ready
    assert second.mode is ArmMode.IDLE
    assert stand.wait(lambda: stand.arm.state().standstill, 2.0)


@pytest.mark.parametrize("target", [(0.45, 0.15, 0.25), (0.55, -0.15, 0.3)])
def test_a_straight_move_ends_within_two_millimetres(stand, target):
    result = stand.arm.run(MoveTo(np.array(target)))
    assert result.reached
    assert result.position_error < 0.002
    assert result.duration_s < 4.0


def test_a_chunk_ends_within_three_millimetres(stand):
    target = np.array([0.42, 0.1, 0.35])
    stand.arm.send_chunk(line(stand, target, "conform"))
    assert stand.wait(lambda: stand.arm.state().stream.remaining_s == 0, 3.0)
    assert stand.wait(lambda: np.linalg.norm(stand.arm.state().ee.position - target) < 0.003, 1.0)
    stand.clock.sleep(0.3)
    assert np.linalg.norm(stand.arm.state().ee.position - target) < 0.003


def test_hold_comes_to_rest_and_ends_the_invocation(stand):
    stand.arm.send_chunk(line(stand, np.array([0.5, 0.2, 0.3]), "held"))
    stand.clock.sleep(0.4)
    stand.arm.hold()
    begin = stand.clock.now()
    assert stand.arm.wait_standstill(2.0)
    assert stand.clock.now() - begin < 1.0
    with pytest.raises(ChunkRefused):
        stand.arm.send_chunk(line(stand, np.array([0.5, 0.2, 0.3]), "held"))


@pytest.mark.parametrize("after", [0.05, 0.3, 0.7])
def test_cancel_is_reported_at_standstill(stand, after):
    token = CancelToken()
    stand.later(after, token.cancel)
    result = stand.arm.run(MoveTo(np.array([0.55, 0.25, 0.2])), cancel=token)
    assert result.outcome is Outcome.CANCELED, result
    where = stand.arm.state()
    assert np.abs(where.dq).max() < 0.05
    stand.clock.sleep(0.3)
    assert stand.arm.state().ee.distance_to(where.ee) < 0.002


def test_stop_latches(stand):
    stand.arm.send_chunk(line(stand, np.array([0.5, 0.2, 0.3]), "stopped"))
    stand.clock.sleep(0.4)
    assert stand.arm.stop("conformance")
    assert stand.arm.run(Home()).reason == "stopped"
    stand.arm.clear_stop()
    assert stand.arm.run(Home()).reached


@pytest.mark.parametrize("width", [0.03, 0.06])
def test_the_grippers_width_is_the_full_opening(stand, width):
    result = stand.arm.run(SetGripper(width))
    assert result.reached
    assert result.gripper_width == pytest.approx(width, abs=0.004)


def test_an_empty_grasp_holds_nothing(stand):
    result = stand.arm.run(Grasp())
    assert not result.reached
    assert result.gripper_width < 0.004
    assert not stand.arm.state().gripper_holding


def test_a_reflex_ends_the_goal_and_is_recovered_by_a_person_only(stand):
    stand.later(0.5, stand.reflex)
    result = stand.arm.run(MoveTo(np.array([0.55, 0.25, 0.2])))
    assert (result.outcome, result.reason) == (Outcome.FAULT, "reflex")
    assert stand.arm.run(Home()).outcome is Outcome.REJECTED
    with pytest.raises(ArmFault):
        stand.arm.recover()
    assert stand.arm.recover(allow_collision=True) == ("cartesian_reflex",)
    assert stand.wait(stand.ready, 2.0)
    assert stand.arm.run(Home()).reached


def test_a_lost_connection_ends_the_goal_and_comes_back(stand):
    stand.later(0.5, stand.cut)
    result = stand.arm.run(MoveTo(np.array([0.55, 0.25, 0.2])))
    assert result.outcome is Outcome.FAULT
    assert result.reason in ("disconnected", "stale_state")  # whichever is noticed first: the broken link or the silence
    assert stand.arm.report().mode is ArmMode.DISCONNECTED
    stand.mend()
    begin = time.monotonic()
    assert stand.wait(stand.ready, 8.0)
    assert time.monotonic() - begin < 10.0
    assert stand.arm.run(Home()).reached
