"""Tool paths: smooth, within the pace, blended, shiftable."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlatools.core import Pose
from vlatools.core.pose import quat_angle
from vlatools.policy.analytic.config import PaceConfig
from vlatools.policy.analytic.path import ToolPath, downward, nearest_turn, tool_vector, vector_quat

PACE = PaceConfig()
START = downward([0.4, 0.0, 0.3], 0.0)


def _speeds(path: ToolPath, dt: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    times = np.arange(path.start_s - 0.1, path.end_s + 0.2, dt)
    v = np.gradient(path.at(times)[:, :3], dt, axis=0)
    a = np.gradient(v, dt, axis=0)
    return np.linalg.norm(v, axis=1), np.linalg.norm(a, axis=1)


coordinates = st.tuples(st.floats(0.3, 0.7), st.floats(-0.3, 0.3), st.floats(0.02, 0.5), st.floats(-1.5, 1.5))


@given(goal=coordinates)
@settings(deadline=None)
def test_one_move_keeps_the_pace_and_ends_at_its_goal(goal: tuple[float, ...]) -> None:
    path = ToolPath(START, 10.0, PACE).go(downward(goal[:3], goal[3]))
    v, a = _speeds(path)
    assert v.max() <= PACE.speed * 1.01
    assert a.max() <= PACE.acceleration * 1.2
    assert path.at(np.array([path.end_s]))[0] == pytest.approx(downward(goal[:3], goal[3]), abs=1e-9)
    assert path.at(np.array([path.start_s - 5.0]))[0] == pytest.approx(START)


@given(points=st.lists(coordinates, min_size=2, max_size=5))
@settings(deadline=None)
def test_a_blended_path_is_continuous_and_ends_at_its_goal(points: list[tuple[float, ...]]) -> None:
    path = ToolPath(START, 0.0, PACE)
    for p in points:
        path.go(downward(p[:3], p[3]))
    v, _ = _speeds(path)
    assert v.max() <= PACE.speed * 1.5  # at a corner two moves add up
    assert path.at(np.array([path.end_s + 1]))[0, :3] == pytest.approx(points[-1][:3], abs=1e-9)


def test_blending_is_quicker_than_stopping() -> None:
    a, b = downward([0.5, 0.0, 0.3], 0), downward([0.5, 0.2, 0.3], 0)
    blended = ToolPath(START, 0.0, PACE).go(a).go(b)
    stopping = ToolPath(START, 0.0, PACE).go(a).go(b, blend=False)
    assert blended.end_s < stopping.end_s - 0.1


def test_a_shift_on_the_way_is_smooth_and_exact() -> None:
    path = ToolPath(START, 0.0, PACE).go(downward([0.6, 0.0, 0.3], 0))
    before = path.at(np.array([0.4]))[0]
    path.shift(np.array([0, 0.03, 0, 0.1, 0, 0, 0]), 0.4)
    assert path.at(np.array([0.4]))[0] == pytest.approx(before)
    assert path.at(np.array([path.end_s]))[0, :4] == pytest.approx([0.6, 0.03, 0.3, 0.1])
    _, a = _speeds(path)
    assert a.max() < 2 * PACE.acceleration


def test_a_cut_path_stands_where_it_is() -> None:
    path = ToolPath(START, 0.0, PACE).go(downward([0.6, 0.0, 0.3], 0))
    here = path.at(np.array([0.5]))[0]
    path.cut(0.5)
    assert path.at(np.array([5.0]))[0] == pytest.approx(here)
    assert path.end_s == 0.5


def test_projection_rises_along_the_path_and_stays_where_the_tool_stays() -> None:
    path = ToolPath(START, 0.0, PACE).go(downward([0.4, 0.0, 0.4], 0)).go(downward([0.6, 0.1, 0.4], 0)).go(downward([0.6, 0.1, 0.05], 0))
    shares = [path.project(v)[0] for v in path.at(np.linspace(0, path.end_s, 50))]
    assert shares[0] < 0.02
    assert shares[-1] == pytest.approx(1.0)
    assert np.all(np.diff(shares) >= -1e-3)
    share, away = path.project(downward([0.6, 0.3, 0.4], 0))
    assert away > 0.15
    assert share < 0.9


def test_a_turn_in_place_has_length_too() -> None:
    path = ToolPath(START, 0.0, PACE).go(downward([0.4, 0.0, 0.3], 1.0))
    assert path.project(downward([0.4, 0.0, 0.3], 0.5))[0] == pytest.approx(0.5, abs=0.05)


@given(yaw=st.floats(-3.0, 3.0), pitch=st.floats(-0.8, 0.8))
def test_any_pose_near_downward_survives_the_seven_numbers(yaw: float, pitch: float) -> None:
    pose = Pose.pointing_down((0.5, 0.1, 0.3), yaw, pitch)
    vector = tool_vector(pose)
    assert quat_angle(vector_quat(vector), pose.quat_xyzw) < 1e-6
    assert vector[:3] == pytest.approx(pose.position)


@pytest.mark.parametrize(
    ("yaw", "reference", "period", "expected"),
    [(3.0, -3.0, 2 * math.pi, 3.0 - 2 * math.pi), (0.1, 1.6, math.pi / 2, 0.1 + math.pi / 2)],
)
def test_nearest_turn(yaw: float, reference: float, period: float, expected: float) -> None:
    assert nearest_turn(yaw, reference, period) == pytest.approx(expected)
