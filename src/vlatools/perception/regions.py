"""Small helpers on image regions: work on the window that holds a region, not on the whole image."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Window = tuple[slice, slice]


def window(mask: NDArray[np.bool_] | NDArray[np.uint8], border: int = 0) -> Window:
    """Smallest (rows, cols) window around a region, enlarged by ``border`` pixels within the image; empty if it is."""
    left, top, width, height = cv2.boundingRect(np.ascontiguousarray(mask).view(np.uint8))
    rows, cols = mask.shape
    if width == 0 or height == 0:
        return slice(0, 0), slice(0, 0)
    return (
        slice(max(0, top - border), min(rows, top + height + border)),
        slice(max(0, left - border), min(cols, left + width + border)),
    )


def known_points(points: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Points (N, 3) of a region of a point map (H, W, 3), without unknown ones."""
    box = window(mask)
    inside = points[box][mask[box]]
    return inside[np.isfinite(inside[:, 2])]


def inner(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The region without its outermost pixels, whose depth is often that of something else."""
    box = window(mask, 1)
    out = np.zeros(mask.shape, bool)
    out[box] = np.asarray(cv2.erode(mask[box].astype(np.uint8), np.ones((3, 3), np.uint8))) > 0
    return out


def spread(points: NDArray[np.float32]) -> float:
    """Larger horizontal extent of points (N, 3) in metres, without the outermost 2 %; 0 for too few."""
    if len(points) < 20:
        return 0.0
    low, high = np.percentile(points[:, :2], (2, 98), axis=0)
    return float(np.max(high - low))
