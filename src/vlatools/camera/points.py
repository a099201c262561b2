"""Between pixels and points: point maps, back-projection and projection with a pinhole camera.

Pixels are (row, col) from the top left; whole numbers are pixel centres. Points are metres in ``fr3_link0``.
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from vlatools.camera.ports import Intrinsics
from vlatools.core import Pose


@lru_cache(maxsize=8)
def _rays(intrinsics: Intrinsics, camera_to_base: Pose) -> tuple[NDArray[np.float32], ...]:
    """x, y and z, each (H, W), of the viewing rays of unit depth, turned into the base frame."""
    cols = ((np.arange(intrinsics.width) - intrinsics.cx) / intrinsics.fx)[None, :]
    rows = ((np.arange(intrinsics.height) - intrinsics.cy) / intrinsics.fy)[:, None]
    return tuple((a * cols + b * rows + c).astype(np.float32) for a, b, c in camera_to_base.rotation)


def point_map(depth: NDArray[np.float32], intrinsics: Intrinsics, camera_to_base: Pose, step: int = 1) -> NDArray[np.float32]:
    """Points of a depth image.

    Args:
        depth: float32 (H, W) metres along the optical axis, NaN where unknown.
        intrinsics: of the depth image (not of the subsampled one).
        camera_to_base: pose of the camera's optical frame in fr3_link0.
        step: keep every ``step``-th row and column.

    Returns:
        float32 (ceil(H/step), ceil(W/step), 3) metres in fr3_link0, NaN where unknown.

    Raises:
        ValueError: the image's size is not that of the intrinsics.
    """
    if depth.shape != (intrinsics.height, intrinsics.width):
        raise ValueError(
            f"depth has shape {depth.shape}, the intrinsics are for {(intrinsics.height, intrinsics.width)}: "
            "use the intrinsics of the same stream"
        )
    near = np.ascontiguousarray(depth[::step, ::step], dtype=np.float32)
    planes = [
        ray[::step, ::step] * near + np.float32(offset)
        for ray, offset in zip(_rays(intrinsics, camera_to_base), camera_to_base.position, strict=True)
    ]
    return np.asarray(cv2.merge(planes), dtype=np.float32)


def back_project(row: float, col: float, depth_m: float, intrinsics: Intrinsics, camera_to_base: Pose) -> NDArray[np.float64]:
    """Point (3,) in fr3_link0 seen at a pixel at ``depth_m`` metres along the optical axis."""
    ray = np.array([(col - intrinsics.cx) / intrinsics.fx, (row - intrinsics.cy) / intrinsics.fy, 1.0])
    return np.asarray(camera_to_base.rotation @ (ray * depth_m) + camera_to_base.position, dtype=float)


def project(points: ArrayLike, intrinsics: Intrinsics, camera_to_base: Pose) -> NDArray[np.float64]:
    """Pixels (N, 2) as (row, col) of points (N, 3) in fr3_link0; NaN behind the camera; may lie outside the image."""
    local = (np.atleast_2d(np.asarray(points, dtype=float)) - camera_to_base.position) @ camera_to_base.rotation
    depth = np.where(local[:, 2] > 1e-6, local[:, 2], np.nan)
    cols = local[:, 0] / depth * intrinsics.fx + intrinsics.cx
    rows = local[:, 1] / depth * intrinsics.fy + intrinsics.cy
    return np.stack([rows, cols], axis=1)
