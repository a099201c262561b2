"""The transform of the tiny model: there and back, and in metres."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlatools.camera.ports import Intrinsics
from vlatools.core import Pose
from vlatools.core.pose import down_quat
from vlatools.policy.analytic.path import downward, vector_quat
from vlatools.policy.picture import HEIGHT, WIDTH
from vlatools.policy.state import STATE_LAYOUT
from vlatools.policy.tiny import text
from vlatools.policy.tiny.transform import CENTER, FEATURES, HORIZON, SPREAD, deltas, features, points, rows

place = st.tuples(st.floats(0.3, 0.7), st.floats(-0.3, 0.3), st.floats(0.0, 0.5))
turn = st.floats(-1.5, 1.5)


def pose(position: tuple[float, float, float], yaw: float, tilt: float) -> Pose:
    return Pose(np.array(position), vector_quat(downward(position, yaw, tilt)))


@given(place, turn, st.floats(-0.4, 0.4), place, turn, st.floats(-0.4, 0.4), st.floats(0.02, 0.08))
def test_actions_survive_the_way_there_and_back(a, yaw_a, tilt_a, b, yaw_b, tilt_b, opening) -> None:  # type: ignore[no-untyped-def]
    now, goal = pose(a, yaw_a, tilt_a), pose(b, yaw_b, tilt_b)
    wanted = np.tile(np.concatenate([goal.position, goal.quat_xyzw, [opening]]), (HORIZON, 1))
    back = rows(now, deltas(now, wanted))
    assert np.allclose(back[:, :3], wanted[:, :3], atol=1e-5) and np.allclose(back[:, 7], opening, atol=1e-6)
    assert np.allclose(np.abs((back[:, 3:7] * wanted[:, 3:7]).sum(axis=1)), 1.0, atol=1e-5)


def test_a_nearly_closed_gripper_closes_with_force() -> None:
    now = pose((0.5, 0.0, 0.2), 0.0, 0.0)
    wanted = np.tile(np.concatenate([now.position, now.quat_xyzw, [0.01]]), (HORIZON, 1))
    assert not rows(now, deltas(now, wanted))[:, 7].any()


def test_a_pixel_becomes_the_point_that_it_shows() -> None:
    """A camera 1 m above (0.5, 0.1) that looks straight down sees the table under it at its height 0."""
    camera = Pose(np.array([0.5, 0.1, 1.0]), down_quat(0.0))
    inner = Intrinsics(WIDTH, HEIGHT, 200.0, 200.0, 80.0, 60.0)
    depth = np.full((HEIGHT, WIDTH), 1000, np.uint16)
    depth[0, 0] = 0
    found = points(depth, inner, camera)
    assert found[:3, 60, 80] * SPREAD + CENTER == pytest.approx([0.5, 0.1, 0.0], abs=1e-6)
    assert np.linalg.norm((found[:2, 60, 100] - found[:2, 60, 80]) * SPREAD) == pytest.approx(0.1, abs=1e-6)
    assert found[3, 60, 80] == 1 and not found[:, 0, 0].any()


def test_features_tell_how_far_the_hand_has_come() -> None:
    start, now = np.zeros(len(STATE_LAYOUT)), np.zeros(len(STATE_LAYOUT))
    for row, x in ((start, 0.4), (now, 0.5)):
        row[:7] = [x, 0.0, 0.2, *down_quat(0.3)]
        row[7:10] = [0.08, 0.0, 0.08]
    made = features(now, start, 2.0)
    assert made.shape == (FEATURES,) and made.dtype == np.float32
    assert made[9:12] == pytest.approx([0.1 / SPREAD, 0.0, 0.0], abs=1e-6)
    assert made[3:5] == pytest.approx([np.sin(0.3), np.cos(0.3)], abs=1e-6) and made[13] == pytest.approx(0.2)


def test_words_are_numbers_and_unknown_ones_are_told_apart() -> None:
    said = text.tokens("Reach the red cube, please!")
    assert said.shape == (text.MAX_TOKENS,) and said[4] == text.UNKNOWN and (said[5:] == text.PAD).all()
    assert len(set(said[:5].tolist())) == 5
    assert (text.tokens("reach the blue cube") != said)[2] and (text.tokens("the " * 40) != text.PAD).all()
