"""A demonstration from the simulation to the samples of training; and what may be asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vlatools.agent.language import parse
from vlatools.core import Family
from vlatools.policy.tiny.transform import HORIZON
from vlatools.sim.scene import sample
from vlatools.tapt.collect import demonstrate, request_of
from vlatools.tapt.episode import STEP_S, EpisodeError, episode_folders, read_episode, read_truth
from vlatools.tapt.scenes import random_request
from vlatools.tapt.units import load_samples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("episodes") / "00003"
    demonstrate(made, 3, "conditioned")
    return made


def test_every_random_request_can_be_understood_and_placed() -> None:
    for seed in range(60):
        request = random_request(np.random.default_rng(seed))
        names = sample(request.scene, seed).names
        assert parse(request.instruction) and len(names) >= 2


def test_the_same_seed_asks_for_the_same() -> None:
    assert request_of(7, "mixed") == request_of(7, "mixed")
    assert len({request_of(seed, "mixed").instruction for seed in range(30)}) > 8


def test_an_episode_is_complete_and_evenly_timed(folder: Path) -> None:
    episode, truth = read_episode(folder), read_truth(folder)
    steps, frames = episode.steps, episode.frames
    assert np.allclose(np.diff(steps.time_s), STEP_S, atol=0.002)
    assert (np.diff(frames.step) == 5).all() and len(frames) == (len(steps) + 4) // 5
    assert truth is not None and truth.poses.shape == (len(steps), len(truth.names), 7)
    families = [row.family for row in truth.invocations if row.outcome == "COMPLETED"]
    assert families[:4] == ["reach", "grasp", "move", "release"] and len(families) >= 12
    # Fingers open only in a release: by definition it begins with them.
    for row in truth.invocations:
        first = round((row.begin_s - steps.time_s[0]) / STEP_S)
        if row.family == "release" and row.outcome == "COMPLETED":
            assert not steps.opening[first - 3] and steps.opening[first + 3] > 0.02
    assert steps.holding.any() and not steps.holding[0]


def test_samples_hold_what_was_done(folder: Path) -> None:
    samples = load_samples([folder])
    assert set(samples.family) == set(range(4)) and samples.actions.shape[1:] == (HORIZON, 6)
    assert samples.progress.min() >= 0 and samples.progress.max() <= 1
    for family in samples.families:
        rows = np.flatnonzero(samples.family == samples.families.index(family))
        late = rows[samples.progress[rows] > 0.95]
        assert np.abs(samples.actions[late][:, :, :3]).max() < 0.6  # 3 cm: near its end little is left to do
        told = np.isfinite(samples.goals[rows]).all(axis=(0, 2))
        assert told.tolist() == [True, family in (Family.MOVE, Family.RELEASE), True]


def test_what_is_no_episode_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "episode.json").write_text('{"format": 99}')
    with pytest.raises(EpisodeError, match="reads 1"):
        read_episode(tmp_path / "a")
    with pytest.raises(EpisodeError, match="collect"):
        read_episode(tmp_path / "b")
    assert list(episode_folders(tmp_path)) == [tmp_path / "a"]
