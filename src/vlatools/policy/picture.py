"""The small RGB-D picture that learned policies see, made the same way for training and serving."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics, RgbdFrame
from vlatools.core import ConfigError

WIDTH, HEIGHT = 160, 120
_CROP = 0.75  # the centre part of the camera's picture that is kept: the table


@dataclass(frozen=True)
class Picture:
    """A reduced picture.

    Attributes:
        color: uint8 (120, 160, 3) RGB.
        depth: uint16 (120, 160) mm along the optical axis, 0 unknown.
        intrinsics: of both.
    """

    color: NDArray[np.uint8]
    depth: NDArray[np.uint16]
    intrinsics: Intrinsics


def reduce_frame(frame: RgbdFrame) -> Picture:
    """Cut the centre out and reduce it: area mean of colour, median of the known depths.

    Raises:
        ConfigError: the camera's picture is not 4:3 with a centre part that is a whole multiple of 160 x 120.
    """
    inner = frame.intrinsics
    width, height = round(_CROP * inner.width), round(_CROP * inner.height)
    factor = width // WIDTH
    if factor < 1 or (width, height) != (factor * WIDTH, factor * HEIGHT):
        raise ConfigError(
            f"the camera's picture is {inner.width} x {inner.height}: its centre {width} x {height} is no whole multiple of "
            f"{WIDTH} x {HEIGHT}: set the camera to 640 x 480"
        )
    left, top = (inner.width - width) // 2, (inner.height - height) // 2
    rows, columns = slice(top, top + height), slice(left, left + width)
    color = frame.color[rows, columns].reshape(HEIGHT, factor, WIDTH, factor, 3).mean(axis=(1, 3))
    blocks = frame.depth[rows, columns].reshape(HEIGHT, factor, WIDTH, factor).transpose(0, 2, 1, 3).reshape(HEIGHT, WIDTH, -1)
    depth = _median_known(blocks)
    # A pixel's centre is at half a pixel.
    intrinsics = Intrinsics(
        WIDTH,
        HEIGHT,
        inner.fx / factor,
        inner.fy / factor,
        (inner.cx - left + 0.5) / factor - 0.5,
        (inner.cy - top + 0.5) / factor - 0.5,
    )
    return Picture((color + 0.5).astype(np.uint8), (1000 * depth + 0.5).astype(np.uint16), intrinsics)


def _median_known(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Lower median over the last axis of the values that are known (not NaN); 0 where none is."""
    known = np.isfinite(blocks)
    count = known.sum(axis=-1)
    ordered = np.sort(np.where(known, blocks, np.inf), axis=-1)
    middle = np.maximum(count - 1, 0) // 2
    median = np.take_along_axis(ordered, middle[..., None], axis=-1)[..., 0]
    return np.where(count > 0, median, 0.0).astype(np.float32)
