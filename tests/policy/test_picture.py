"""The small picture: what it keeps, where its pixels lie, what unknown depth becomes."""

from __future__ import annotations

import numpy as np
import pytest

from vlatools.camera.ports import Intrinsics, RgbdFrame
from vlatools.core import ConfigError
from vlatools.policy.picture import HEIGHT, WIDTH, reduce_frame

D435 = Intrinsics(640, 480, 617.0, 617.0, 319.5, 239.5)


def frame(color: np.ndarray, depth: np.ndarray, intrinsics: Intrinsics = D435) -> RgbdFrame:
    return RgbdFrame(0.0, 1, color, depth, intrinsics)


def test_a_block_of_three_by_three_becomes_its_mean_and_median() -> None:
    color, depth = np.zeros((480, 640, 3), np.uint8), np.full((480, 640), 0.9, np.float32)
    rows, columns = slice(60 + 3 * 10, 60 + 3 * 11), slice(80 + 3 * 20, 80 + 3 * 21)
    color[rows, columns, 0] = np.arange(0, 90, 10).reshape(3, 3)
    depth[rows, columns] = [[0.5, 0.6, np.nan], [np.nan, 0.7, 0.8], [np.nan, np.nan, np.nan]]
    picture = reduce_frame(frame(color, depth))
    assert picture.color.shape == (HEIGHT, WIDTH, 3) and picture.depth.shape == (HEIGHT, WIDTH)
    assert picture.color[10, 20].tolist() == [40, 0, 0] and picture.color[10, 21].tolist() == [0, 0, 0]
    assert picture.depth[10, 20] == 600 and picture.depth[11, 20] == 900


def test_unknown_depth_stays_unknown() -> None:
    picture = reduce_frame(frame(np.zeros((480, 640, 3), np.uint8), np.full((480, 640), np.nan, np.float32)))
    assert not picture.depth.any()


def test_a_point_is_where_it_was() -> None:
    """The ray through the centre of a block is the ray through the pixel that the block becomes."""
    inner = reduce_frame(frame(np.zeros((480, 640, 3), np.uint8), np.ones((480, 640), np.float32))).intrinsics
    for u, v in ((0, 0), (159, 119), (37, 80)):
        whole = ((80 + 3 * u + 1 - D435.cx) / D435.fx, (60 + 3 * v + 1 - D435.cy) / D435.fy)
        assert ((u - inner.cx) / inner.fx, (v - inner.cy) / inner.fy) == pytest.approx(whole)


def test_another_shape_is_refused_with_the_fix() -> None:
    wide = Intrinsics(1280, 720, 900.0, 900.0, 639.5, 359.5)
    with pytest.raises(ConfigError, match="640 x 480"):
        reduce_frame(frame(np.zeros((720, 1280, 3), np.uint8), np.ones((720, 1280), np.float32), wide))
