"""The physics: reproducible, at rest when nothing acts, honest about forces and about what the gripper holds."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from vlatools.core import Pose
from vlatools.robot.config import RobotConfig
from vlatools.robot.model import Fr3Model
from vlatools.sim.forces import ForceSense
from vlatools.sim.scene import load_scene, sample
from vlatools.sim.world import World


@pytest.fixture
def world() -> World:
    made = World(sample(load_scene("simple"), 1))
    config = RobotConfig()
    made.set_gains(np.array(config.stiffness), np.array(config.damping))
    return made


def test_everything_rests_at_first(world: World) -> None:
    world.advance(1000)
    for thing in world.instance.objects:
        truth = world.truth().objects[thing.name]
        assert np.linalg.norm(truth.pose.position - thing.pose.position) < 5e-4
        assert np.linalg.norm(truth.velocity) < 1e-4
    assert np.abs(world.q - world.home).max() < 1e-6


def test_a_reset_world_runs_as_a_new_one() -> None:
    config = load_scene("simple")
    fresh, used = World(sample(config, 5)), World(sample(config, 2))
    used.grasp(0.0, 0.05, 40.0)
    used.advance(300)
    used.reset(sample(config, 5))
    assert used.ticks == 300  # time never goes back
    for each in (fresh, used):
        each.knock("red cube", np.array([0.02, 0.01, 0.0]))
        each.advance(400)
    assert np.array_equal(fresh.data.qpos, used.data.qpos)


def test_another_set_of_objects_is_a_new_model(world: World) -> None:
    world.reset(sample(load_scene("long"), 0))
    assert set(world.truth().objects) == {"blue cube", "red cube", "yellow cube", "left bowl", "right bowl"}


def test_gripper_keeps_its_speed_limit_and_reports_the_width_of_its_fingers(world: World) -> None:
    world.move_fingers(0.02, finger_speed=0.5)
    world.advance(200)
    assert world.gripper_width == pytest.approx(0.08 - 2 * 0.05 * 0.2, abs=0.003)
    world.advance(800)
    assert world.fingers_settled() and world.gripper_width == pytest.approx(0.02, abs=5e-4)


def test_an_empty_grasp_closes_fully_and_holds_nothing(world: World) -> None:
    world.grasp(0.0, 0.05, 40.0)
    assert not world.fingers_settled()
    world.advance(1500)
    assert world.fingers_settled() and world.gripper_width < 1e-4 and world.held() == frozenset()


@pytest.mark.parametrize(("height", "touching"), [(0.004, True), (0.05, False)])
def test_external_torques_are_those_of_the_contacts(world: World, height: float, touching: bool) -> None:
    goal = Fr3Model().ik(Pose.pointing_down([0.5, 0.0, height]).matrix, world.home).q
    for step in range(200):
        world.set_reference(world.home + (goal - world.home) * min(1.0, step / 180), np.zeros(7))
        world.advance(10)
    senses = ForceSense(world)
    for _ in range(200):
        world.advance(1)
        senses.update(1)
    rows = world.data.efc_type == mujoco.mjtConstraint.mjCNSTR_CONTACT_ELLIPTIC
    jacobian = np.zeros((world.data.nefc, world.model.nv))
    if mujoco.mj_isSparse(world.model):
        data = world.data
        mujoco.mju_sparse2dense(jacobian, data.efc_J, data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind)
    else:
        jacobian = world.data.efc_J.reshape(jacobian.shape)
    expected = (jacobian[rows].T @ world.data.efc_force[rows])[world.v_slice]
    assert np.allclose(senses.tau, expected, atol=0.2)  # filtered against the last step
    assert (senses.wrench[2] > 5.0) == touching  # pressed on the table, the table pushes up


def test_knock_moves_and_teleport_places(world: World) -> None:
    before = world.truth().objects["red cube"].pose
    world.knock("red cube", np.array([0.03, 0.0, 0.0]))
    assert world.truth().objects["red cube"].velocity[0] == pytest.approx(0.6, rel=1e-3)
    world.advance(500)
    assert world.truth().objects["red cube"].pose.distance_to(before) > 0.01
    world.teleport("red cube", before)
    world.advance(200)
    assert world.truth().objects["red cube"].pose.distance_to(before) < 1e-3


def test_unknown_object_is_named(world: World) -> None:
    with pytest.raises(KeyError, match=r"no object 'green cube'.*red cube"):
        world.teleport("green cube", Pose.identity())
