"""The lab in lock-step: exact time, real grasps, lazily drawn pictures, faults."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from vlatools.core import ArmFault, Outcome, Pose, StaleData
from vlatools.core.pose import down_quat, quat_multiply
from vlatools.robot.config import ArmConfig
from vlatools.robot.controller import ArmController
from vlatools.robot.model import Fr3Model
from vlatools.robot.ports import ArmMode, Grasp, MovePose, MoveTo, Release, Retreat, SetGripper
from vlatools.sim.lockstep import FAULTS, LockstepLab
from vlatools.sim.scene import BOWL_FLOOR_RADIUS, BOWL_HEIGHT, BOWL_INNER_RADIUS


@pytest.fixture
def lab() -> Iterator[LockstepLab]:
    made = LockstepLab("simple", 1)
    yield made
    made.close()


@pytest.fixture
def arm(lab: LockstepLab) -> ArmController:
    made = ArmController(lab.servo, lab.gripper, ArmConfig(), lab.clock, background=lambda work: work())
    lab.clock.every(made.config.period_s, made.tick)
    lab.clock.sleep(0.2)
    return made


def move(arm: ArmController, x: float, y: float, z: float, yaw: float = 0.0) -> None:
    result = arm.run(MoveTo(np.array([x, y, z]), yaw=yaw))
    assert result.outcome is Outcome.COMPLETED, result.message


def pick_cube(lab: LockstepLab, arm: ArmController, name: str) -> None:
    pose = lab.truth().objects[name].pose
    x, y, z = pose.position
    move(arm, x, y, 0.12, pose.yaw)
    move(arm, x, y, z, pose.yaw)
    assert arm.run(Grasp()).reached
    move(arm, x, y, 0.15, pose.yaw)


# -- time ---------------------------------------------------------------------------------------------------------------
def test_jobs_run_at_exact_times(lab: LockstepLab) -> None:
    seen: list[float] = []
    end = lab.clock.every(0.02, lambda: seen.append(lab.clock.now()))
    once: list[float] = []
    lab.clock.at(0.033, lambda: once.append(lab.clock.now()))
    lab.clock.sleep(0.1)
    end()
    lab.clock.sleep(0.1)
    assert seen == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.10]) and once == pytest.approx([0.033])


def test_a_job_must_not_wait(lab: LockstepLab) -> None:
    lab.clock.every(0.01, lambda: lab.clock.sleep(0.01))
    with pytest.raises(RuntimeError, match="must return, not wait"):
        lab.clock.sleep(0.05)


def test_two_labs_of_one_seed_agree_to_the_last_bit() -> None:
    ends = []
    for _ in range(2):
        lab = LockstepLab("simple", 4)
        arm = ArmController(lab.servo, lab.gripper, ArmConfig(), lab.clock, background=lambda work: work())
        lab.clock.every(arm.config.period_s, arm.tick)
        lab.clock.sleep(0.2)
        pick_cube(lab, arm, "red cube")
        ends.append((lab.clock.now(), lab.world.data.qpos.copy()))
    assert ends[0][0] == ends[1][0] and np.array_equal(ends[0][1], ends[1][1])


# -- grasps -------------------------------------------------------------------------------------------------------------
def test_a_cube_is_held_by_friction_and_put_into_a_bowl(lab: LockstepLab, arm: ArmController) -> None:
    pick_cube(lab, arm, "red cube")
    truth = lab.truth()
    assert truth.objects["red cube"].held and arm.state().gripper_holding
    assert truth.gripper_width == pytest.approx(0.04, abs=5e-4)
    assert truth.objects["red cube"].pose.distance_to(truth.ee) < 0.003
    x, y, _ = truth.objects["left bowl"].pose.position
    move(arm, x, y, 0.15)
    move(arm, x, y, 0.08)
    assert arm.run(Release()).reached
    lab.clock.sleep(0.5)
    end = lab.truth().objects
    offset = end["red cube"].pose.position - end["left bowl"].pose.position
    assert np.linalg.norm(offset[:2]) < 0.02 and not end["red cube"].held
    assert end["red cube"].pose.position[2] == pytest.approx(0.004 + 0.02, abs=0.001)  # on the bowl's floor


def test_a_bowl_is_carried_level_by_its_rim(lab: LockstepLab, arm: ArmController) -> None:
    x, y, _ = lab.truth().objects["left bowl"].pose.position
    # The wall on the robot's side, fingers along x, the hand inclined as the wall is.
    tilt = -math.atan2(BOWL_INNER_RADIUS - BOWL_FLOOR_RADIUS, BOWL_HEIGHT)
    quat = quat_multiply(down_quat(math.pi / 2), (math.sin(tilt / 2), 0.0, 0.0, math.cos(tilt / 2)))

    def go(*position: float) -> None:
        result = arm.run(MovePose(Pose(np.array(position), quat)))
        assert result.outcome is Outcome.COMPLETED, result.message

    assert arm.run(SetGripper(0.04)).reached
    near = x - 0.058
    go(near, y, 0.12)
    go(near, y, 0.031)
    arm.run(Grasp(min_width=0.002))
    go(near, y, 0.12)
    carried, width = lab.truth().objects["left bowl"], lab.truth().gripper_width
    assert carried.held and carried.pose.position[2] > 0.08 and carried.pose.rotation[2, 2] > 0.998
    assert width == pytest.approx(0.004, abs=5e-4) and arm.state().gripper_holding
    go(0.48, -0.02, 0.12)
    go(0.48, -0.02, 0.033)
    assert arm.run(Release()).reached and arm.run(Retreat()).reached
    lab.clock.sleep(0.5)
    placed = lab.truth().objects["left bowl"].pose
    assert placed.rotation[2, 2] > 0.999 and placed.position[2] == pytest.approx(0.0225, abs=1e-3)
    assert np.linalg.norm(placed.position[:2] - [0.538, -0.02]) < 0.01


def test_a_knocked_cube_leaves_the_gripper(lab: LockstepLab, arm: ArmController) -> None:
    pick_cube(lab, arm, "yellow cube")
    lab.knock("yellow cube", np.zeros(3))
    lab.clock.sleep(1.0)
    assert not lab.truth().objects["yellow cube"].held and not arm.state().gripper_holding
    assert lab.truth().objects["yellow cube"].pose.position[2] < 0.03


# -- camera -------------------------------------------------------------------------------------------------------------
def test_pictures_are_drawn_only_when_asked_for(lab: LockstepLab) -> None:
    lab.clock.sleep(1.0)
    assert lab.camera._renderer is None
    frame = lab.camera.latest(0.1)
    assert frame is lab.camera.latest(0.1)
    assert frame.color.shape == (480, 640, 3) and frame.depth.dtype == np.float32
    later = lab.camera.wait_after(frame.stamp_s, 1.0)
    assert later.number == frame.number + 1 and later.stamp_s - frame.stamp_s == pytest.approx(1 / 15, abs=1e-3)


def test_depth_and_colour_show_the_cube_where_it_is(lab: LockstepLab) -> None:
    lab.clock.sleep(0.1)
    frame, truth = lab.camera.latest(1.0), lab.truth().objects["red cube"].pose.position
    seen = lab.camera_to_base.inverse()
    x, y, z = seen.rotation @ (truth + np.array([0.0, 0.0, 0.02])) + seen.position
    col, row = round(lab.intrinsics.fx * x / z + lab.intrinsics.cx), round(lab.intrinsics.fy * y / z + lab.intrinsics.cy)
    red, green, blue = (int(value) for value in frame.color[row, col])
    assert red > 2 * green and red > 2 * blue
    patch = frame.depth[row - 2 : row + 3, col - 2 : col + 3]
    assert float(np.nanmedian(patch)) == pytest.approx(z, abs=0.01)


def test_noise_belongs_to_the_frame(lab: LockstepLab) -> None:
    other = LockstepLab("simple", 1)
    for each in (lab, other):
        each.clock.sleep(0.3)
    assert np.array_equal(lab.camera.latest(1.0).depth, other.camera.latest(1.0).depth, equal_nan=True)
    other.close()


# -- faults -------------------------------------------------------------------------------------------------------------
def test_pressing_into_the_table_trips_the_reflex_and_recovery_clears_it(lab: LockstepLab) -> None:
    servo = lab.servo
    start = servo.read()
    servo.start()
    down = Fr3Model().ik(Pose.pointing_down([0.5, 0.0, -0.04]).matrix, start.q).q
    step = 0
    while not servo.read().reflex and step < 300:
        servo.command(start.q + (down - start.q) * min(1.0, step / 100), np.zeros(7))
        lab.clock.sleep(0.02)
        step += 1
    with pytest.raises(ArmFault) as fault:
        servo.command(down, np.zeros(7))
    assert fault.value.reason == "reflex" and fault.value.errors[0] in ("cartesian_reflex", "joint_reflex")
    lab.clock.sleep(0.5)
    state = servo.read()
    assert state.reflex and not state.in_control and np.abs(state.dq).max() < 0.02
    assert np.linalg.norm(state.wrench[:3]) < 60.0  # it does not press on
    servo.recover()
    servo.start()
    assert not servo.read().reflex


def test_halt_stands_still_soon_and_holds(lab: LockstepLab, arm: ArmController) -> None:
    servo, q = lab.servo, lab.servo.read().q
    servo.start()
    for step in range(30):
        servo.command(q + np.array([0.01 * step, 0, 0, 0, 0, 0, 0]), np.array([0.5, 0, 0, 0, 0, 0, 0]))
        lab.clock.sleep(0.02)
    servo.halt()
    servo.halt()
    lab.clock.sleep(0.3)
    here = servo.read()
    assert np.abs(here.dq).max() < 0.02 and not here.in_control
    lab.clock.sleep(1.0)
    assert np.abs(servo.read().q - here.q).max() < 3e-3
    with pytest.raises(ArmFault, match="start a new one"):
        servo.command(q, np.zeros(7))


@pytest.mark.parametrize(("fault", "mode"), [("disconnect", ArmMode.DISCONNECTED), ("user_stop", ArmMode.USER_STOPPED)])
def test_the_controller_sees_a_fault_and_its_end(lab: LockstepLab, arm: ArmController, fault: str, mode: ArmMode) -> None:
    lab.inject(fault, after_s=0.1, lasts_s=1.0)
    lab.clock.sleep(0.3)
    assert arm.report().mode is mode
    lab.clock.sleep(7.0)
    assert arm.report().mode is not mode


def test_camera_faults_are_stale_data(lab: LockstepLab) -> None:
    lab.inject("freeze_camera", lasts_s=1.0)
    lab.clock.sleep(0.6)
    with pytest.raises(StaleData, match="camera"):
        lab.camera.latest(0.3)
    lab.clock.sleep(1.0)
    lab.camera.latest(0.3)
    lab.inject("unplug_camera")
    lab.clock.sleep(0.01)
    with pytest.raises(StaleData, match="inf"):
        lab.camera.latest(10.0)


def test_a_gripper_that_hangs_ends_with_a_reason(lab: LockstepLab) -> None:
    lab.inject("gripper_hang")
    lab.clock.sleep(0.01)
    lab.gripper.move(0.02, 0.1)
    lab.clock.sleep(4.0)
    assert lab.gripper.status().busy
    lab.clock.sleep(1.5)
    status = lab.gripper.status()
    assert not status.busy and status.error.startswith("gripper_timeout: move to 20.0 mm")
    assert lab.world.gripper_width == pytest.approx(0.08, abs=1e-3)


def test_unknown_faults_are_named(lab: LockstepLab) -> None:
    with pytest.raises(ValueError, match=FAULTS[0]):
        lab.inject("earthquake")


def test_reset_starts_anew_without_turning_back_time(lab: LockstepLab, arm: ArmController) -> None:
    pick_cube(lab, arm, "red cube")
    arm.hold()
    now = lab.clock.now()
    lab.inject("reflex")
    lab.clock.sleep(0.1)
    lab.reset(9)
    assert lab.clock.now() > now and lab.world.instance.seed == 9
    lab.clock.sleep(0.3)
    state = lab.servo.read()
    assert not state.reflex and np.abs(state.q - ArmConfig().home).max() < 1e-3
    assert lab.gripper.status().state is not None and not lab.truth().objects["red cube"].held
    home = Pose.from_matrix(lab.world.ee_matrix())
    assert home.position[2] > 0.3
