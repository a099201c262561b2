"""The motion laws and the reference: limits hold whatever is asked."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlatools.robot.config import ArmConfig
from vlatools.robot.limits import Guards
from vlatools.robot.profile import PathLaw, StopProfile
from vlatools.robot.reference import Reference

A, J = np.full(7, 6.0), np.full(7, 250.0)
finite = st.floats(-2.0, 2.0)
seven = st.lists(finite, min_size=7, max_size=7).map(np.array)


@settings(max_examples=300, deadline=None)
@given(v=seven, a=seven)
def test_a_stop_ends_at_rest_and_continues_itself(v, a):
    stop = StopProfile(np.zeros(7), v, 3 * a, A, J)
    times = 0.02 * np.arange(1, 40)
    q, speed, acceleration = stop.at(times)
    assert np.all(stop.at(np.array([stop.duration + 1e-6]))[1] == 0)
    assert np.abs(acceleration).max() <= 6.0 + 1e-9
    assert stop.duration < 0.6
    again, _, _ = StopProfile(q[0], speed[0], acceleration[0], A, J).at(times[:-1])
    np.testing.assert_allclose(again, q[1:], atol=1e-9)


@pytest.mark.parametrize(("v", "a"), [(1.0, 2.0), (5.0, 2.0), (0.1, 5.0)])
def test_a_path_law_keeps_its_limits(v, a):
    s = np.linspace(0, 1, 11)
    law = PathLaw(s, np.full(11, v), np.full(11, a), 0.1)
    times = np.linspace(0, law.duration + 0.1, 4000)
    path = np.array([law.at(t) for t in times])
    assert path[0, 0] == 0
    assert path[-1, 0] == 1
    assert np.all(np.diff(path[:, 0]) >= -1e-12)
    assert path[:, 1].max() <= v * 1.001
    ideal = 1 / v + v / a if v * v / a < 1 else 2 / np.sqrt(a)
    assert law.duration < ideal + 0.15
    assert np.abs(np.diff(path[:, 1]) / np.diff(times)).max() <= a * 1.05


def test_tracking_has_no_lag_and_a_step_no_overshoot():
    config = ArmConfig()
    reference = Reference(config, Guards(config))
    reference.reset(config.home)
    dt = config.period_s
    for i in range(50):  # 0.4 rad/s ramp
        target, velocity = config.home.copy(), np.zeros(7)
        target[0] += 0.4 * dt * (i + 1)
        velocity[0] = 0.4
        reference.track(target, velocity)
    assert abs(target[0] - reference.q[0]) / 0.4 < 0.005
    reference.reset(config.home)
    target = config.home.copy()
    target[0] += 0.2
    path = []
    for _ in range(60):
        reference.track(target, np.zeros(7))
        path.append(reference.q[0])
    assert max(path) <= target[0] + 1e-4
    assert abs(path[-1] - target[0]) < 1e-3


def test_the_reference_brakes_before_a_limit_and_says_which():
    config = ArmConfig()
    reference = Reference(config, Guards(config))
    reference.reset(config.home)
    target = config.home.copy()
    target[5] = 10.0
    said = {reference.track(target, np.zeros(7))[0] for _ in range(200)}
    assert said == {"", "workspace"} or "joint_limits" in said or "workspace" in said


def test_an_arm_outside_its_limits_may_come_back_but_not_go_on():
    config = ArmConfig()
    guards = Guards(config)
    outside = config.home.copy()
    outside[0] = 2.8  # beyond the limit of joint 1
    still = np.zeros(7)
    back, onward = outside.copy(), outside.copy()
    back[0], onward[0] = 2.75, 2.85
    name, _ = guards.violation(np.vstack([outside, onward]), np.vstack([still, still]))
    assert name == "joint_limits"
    assert guards.violation(np.vstack([outside, back]), np.vstack([still, still]))[0] != "joint_limits"


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_outside_the_limits_reaches_the_robot(seed):
    path = Path(__file__).parents[2] / "benchmarks" / "chunk_limits.py"
    spec = importlib.util.spec_from_file_location("chunk_limits", path)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["chunk_limits"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    worst, count, distance = module.run(chunks=600, seed=seed)
    assert count["accepted"] > 100
    assert distance > 3.0, "the arm must really have moved"
    assert {name: share for name, share in worst.items() if share > 1 + 1e-6} == {}
    assert {"refused: jump", "refused: not_finite", "refused: wrong_shape", "refused: stale"} <= set(count)
