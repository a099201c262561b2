"""Kinematics and body model against the URDF and meshes that franky-sim ships."""

from pathlib import Path

import numpy as np
import pytest

from vlatools.core import Pose
from vlatools.robot import fr3
from vlatools.robot.collision import BodyModel
from vlatools.robot.config import ArmConfig
from vlatools.robot.model import Fr3Model

pin = pytest.importorskip("pinocchio")


@pytest.fixture(scope="module")
def assets() -> Path:
    sim = pytest.importorskip("franky_sim")
    return Path(sim.__file__).parent / "assets"


def random_q(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(fr3.Q_MIN, fr3.Q_MAX, (count, 7))


def test_forward_kinematics_equals_the_urdf(assets):
    urdf = pin.buildModelFromUrdf(str(assets / "fr3.urdf"))
    data, frame, model = urdf.createData(), urdf.getFrameId("fr3_hand_tcp"), Fr3Model()
    for q in random_q(100):
        full = pin.neutral(urdf)
        full[:7] = q
        pin.framesForwardKinematics(urdf, data, full)
        np.testing.assert_allclose(model.matrix(q), data.oMf[frame].homogeneous, atol=1e-12)
        np.testing.assert_allclose(model.tcp_of_links(model.links(q[None]))[0], data.oMf[frame].homogeneous, atol=1e-12)


def test_limits_are_within_the_urdfs(assets):
    urdf = pin.buildModelFromUrdf(str(assets / "fr3.urdf"))
    assert np.all(urdf.lowerPositionLimit[:7] <= fr3.Q_MIN)
    assert np.all(urdf.upperPositionLimit[:7] >= fr3.Q_MAX)
    np.testing.assert_allclose(urdf.velocityLimit[:7], fr3.DQ_MAX)


def test_fr3_limits_not_pandas():
    # C18: 0.2 rad is legal for joint 6 of a Panda, 4.2 rad is not; the FR3 is the other way round.
    assert fr3.Q_MIN[5] > 0.2
    assert fr3.Q_MAX[5] > 4.2


def test_velocity_limit_falls_to_zero_at_the_edge():
    low, high = fr3.velocity_limits(fr3.Q_MAX)
    assert np.all(high < 0.12)
    assert np.all(low < -2.0)
    low, high = fr3.velocity_limits(np.array(ArmConfig().home_q))
    assert np.all(high[[0, 2, 4, 6]] == fr3.DQ_MAX[[0, 2, 4, 6]])


def test_jacobian_is_the_derivative():
    model = Fr3Model()
    for q in random_q(20):
        jacobian = model.jacobian(q)
        for joint in range(7):
            step = np.zeros(7)
            step[joint] = 1e-6
            numeric = (model.matrix(q + step)[:3, 3] - model.matrix(q - step)[:3, 3]) / 2e-6
            np.testing.assert_allclose(jacobian[:3, joint], numeric, atol=1e-6)


def test_ik_reaches_the_whole_table():
    model, home = Fr3Model(), ArmConfig().home
    rng = np.random.default_rng(1)
    for _ in range(200):
        target = Pose.pointing_down(rng.uniform([0.3, -0.25, 0.012], [0.7, 0.25, 0.4]), rng.uniform(-1.2, 1.2))
        found = model.ik(target.matrix, home, home)
        assert found.ok, (target, found)
        assert model.pose(found.q).distance_to(target) < 3e-4


def test_ik_says_what_is_left_of_an_unreachable_target():
    model, home = Fr3Model(), ArmConfig().home
    found = model.ik(Pose.pointing_down([1.2, 0.0, 0.3]).matrix, home, home)
    assert not found.ok
    assert found.position_error > 0.2
    assert np.all(found.q >= model.q_min)
    assert np.all(found.q <= model.q_max)


def test_tcp_is_configuration():
    # C14: the same joints, 0.1034 m apart along the hand's axis.
    q = ArmConfig().home
    assert Fr3Model().pose(q).distance_to(Fr3Model(tcp_z=0.0).pose(q)) == pytest.approx(0.1034)


def test_spheres_find_every_collision_of_the_meshes(assets):
    pytest.importorskip("coal")
    urdf = pin.buildModelFromUrdf(str(assets / "fr3.urdf"))
    data = urdf.createData()
    meshes = pin.buildGeomFromUrdf(
        urdf, str(assets / "fr3.urdf"), pin.GeometryType.COLLISION, package_dirs=[str(assets)]
    )
    links = [
        fr3.HAND if "hand" in g.name or "finger" in g.name else int(g.name[len("fr3_link")])
        for g in meshes.geometryObjects
    ]
    for first, a in enumerate(links):
        for second in range(first + 1, len(links)):
            if (min(a, links[second]), max(a, links[second])) in fr3.LINK_PAIRS:
                meshes.addCollisionPair(pin.CollisionPair(first, second))
    found, body, model = meshes.createData(), BodyModel(), Fr3Model()
    qs = random_q(1500, seed=3)
    gaps = body.self_gap(body.centers(model.links(qs)))
    hits = 0
    for q, gap in zip(qs, gaps, strict=True):
        full = pin.neutral(urdf)
        full[:7] = q
        if pin.computeCollisions(urdf, data, meshes, found, full, True):
            hits += 1
            assert gap < 0.0, q
    assert hits > 30
    # and it does not cry wolf over the table
    home = ArmConfig().home
    rng = np.random.default_rng(4)
    for _ in range(100):
        target = Pose.pointing_down(rng.uniform([0.3, -0.3, 0.012], [0.7, 0.3, 0.45]), rng.uniform(-1.5, 1.5))
        found_q = model.ik(target.matrix, home, home).q
        assert body.self_gap(body.centers(model.links(found_q[None])))[0] > 0.0


def test_fingertips_are_the_lowest_point_of_a_hand_that_points_down():
    model, body, home = Fr3Model(), BodyModel(), ArmConfig().home
    links = model.links(home[None])
    tool, link = body.lowest(links, body.centers(links))
    assert tool[0] == pytest.approx(model.pose(home).position[2] - fr3.FINGERTIP_Z, abs=1e-4)
    assert link[0] > tool[0]
