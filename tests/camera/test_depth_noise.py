"""The depth noise model keeps what a D435 keeps and spoils what it spoils."""

from __future__ import annotations

import numpy as np
import pytest

from vlatools.sim.depth_noise import D435, apply


def plane(z: float) -> np.ndarray:
    return np.full((480, 640), z, np.float32)


@pytest.mark.parametrize("z", [0.5, 1.0, 2.0])
def test_noise_grows_with_the_square_of_the_distance_and_has_no_bias(z: float) -> None:
    noisy = apply(plane(z), np.random.default_rng(1))
    assert noisy.dtype == np.float32
    assert np.nanstd(noisy) == pytest.approx(D435.sigma_at_1m * z**2, rel=0.15)
    assert np.nanmean(noisy) == pytest.approx(z, abs=0.0003 * z)


def test_depth_comes_in_whole_millimetres() -> None:
    noisy = apply(plane(0.9), np.random.default_rng(1))
    counts = noisy[np.isfinite(noisy)] / D435.unit
    assert np.abs(counts - np.rint(counts)).max() < 1e-3


def test_what_is_too_near_too_far_or_nothing_has_no_depth() -> None:
    depth = plane(0.9)
    depth[:100], depth[100:200], depth[200:300] = 0.2, 5.0, np.inf
    depth[300:400] = np.nan
    noisy = apply(depth, np.random.default_rng(1))
    assert np.isnan(noisy[:400]).all()
    assert np.isfinite(noisy[405:]).mean() > 0.98


def test_edges_lose_pixels_and_get_mixed_ones() -> None:
    depth = plane(1.0)
    depth[:, 320:] = 0.7
    noisy = apply(depth, np.random.default_rng(1))
    edge = noisy[:, 319:321]
    assert np.isnan(edge).mean() == pytest.approx(D435.edge_dropout, abs=0.06)
    between = (edge > 0.75) & (edge < 0.95)
    assert between.mean() > 0.1
    assert np.isnan(noisy[:, :300]).mean() == pytest.approx(D435.dropout, abs=0.002)


def test_the_seed_decides_and_the_input_is_left_alone() -> None:
    depth = plane(0.9)
    one, two = apply(depth, np.random.default_rng(5)), apply(depth, np.random.default_rng(5))
    assert np.array_equal(one, two, equal_nan=True)
    assert not np.array_equal(one, apply(depth, np.random.default_rng(6)), equal_nan=True)
    assert (depth == np.float32(0.9)).all()
