"""Fit of a cube to what a camera sees of it: depth on its faces and the outline of its region.

The outline (colour has no noise worth speaking of) fixes the position across the view, the depth that along it. Where the
outline borders on something nearer, the cube is hidden and the outline says nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics
from vlatools.core import Pose
from vlatools.perception.cube_solver import (
    EDGE,
    TILTED,
    UPRIGHT,
    YAW,
    Evidence,
    corner_pixels,
    minimise,
    outline_errors,
    rotations,
    surface_distances,
)
from vlatools.perception.regions import inner, known_points, window

_DIRECTIONS = 32
_TABLE_CONTACT_M = 0.010
_MAX_POINTS = 160
_STARTS = 5
_TILT_STARTS, _TILT_YAWS = 8, 3
_TILT_START = 0.45
_MAX_TILT = 1.0
_BORDER = 16
# A pixel belongs to the region when its centre does, so the outline lies about this far outside the outermost centres.
_PIXEL_MARGIN = 0.35
_MAX_DEPTH_RMS_M = 0.0036
_MAX_OUTLINE_SIGMAS = 1.1
_MAX_UNEXPLAINED = 0.25
_MIN_VISIBLE = 0.12
# With two more free numbers much looks like a cube: a tilted one must be seen better.
_TILTED_MIN_VISIBLE = 0.4


@dataclass(frozen=True)
class CubeFit:
    """A cube and how well it explains what was seen.

    Attributes:
        center: (3,) metres, fr3_link0.
        yaw: radians in (-pi/4, pi/4].
        tilt: angle of its axis from the vertical, radians; 0 for an upright one.
        size: edge in metres.
        depth_rms: of the points from the cube's surface, metres.
        outline_rms: of the outline, in its standard deviations; 0 where none was seen.
        visible: share of the cube's outline area that its region covers.
        unexplained: share of the outline area that is neither its region nor behind something nearer.
    """

    center: NDArray[np.float64]
    yaw: float
    tilt: float
    size: float
    depth_rms: float
    outline_rms: float
    visible: float
    unexplained: float

    @property
    def confidence(self) -> float:
        """0 to 1; 0 when this is no cube."""
        if (
            self.depth_rms > _MAX_DEPTH_RMS_M
            or self.outline_rms > _MAX_OUTLINE_SIGMAS
            or self.unexplained > _MAX_UNEXPLAINED
            or self.visible < (_TILTED_MIN_VISIBLE if self.tilt > 0 else _MIN_VISIBLE)
        ):
            return 0.0
        quality = 1.0 - 0.5 * self.depth_rms / _MAX_DEPTH_RMS_M - 0.5 * self.unexplained
        return float(np.clip(quality * (0.4 + 0.6 * min(1.0, self.visible / 0.7)), 0.0, 1.0))


def fit_cube(
    mask: NDArray[np.bool_],
    points: NDArray[np.float32],
    depth: NDArray[np.float32],
    intrinsics: Intrinsics,
    camera_to_base: Pose,
    size_range: tuple[float, float],
    outline_sigma_px: float,
) -> CubeFit | None:
    """Fit a cube to a region: an upright one, and a tilted one if that explains too little.

    Args:
        mask: bool (H, W), the region.
        points: float32 (H, W, 3) in fr3_link0, NaN where unknown.
        depth: float32 (H, W) metres, NaN where unknown.
        intrinsics, camera_to_base: of the camera.
        size_range: smallest and largest edge in metres.
        outline_sigma_px: how exact the region's outline is.

    Returns:
        The fit, or None when no cube of that size fits or too little is seen.
    """
    box = window(mask, _BORDER)
    mask, points, depth = mask[box], points[box], depth[box]
    if mask.size == 0:
        return None
    shifted = replace(intrinsics, cx=intrinsics.cx - box[1].start, cy=intrinsics.cy - box[0].start)
    nominal = (size_range[0] + size_range[1]) / 2
    evidence = _collect(mask, points, depth, shifted, camera_to_base, outline_sigma_px, nominal)
    if evidence is None:
        return None
    start = _start(evidence, camera_to_base)
    upright = _checked(_upright(start, evidence), evidence, mask, depth, size_range)
    if upright is not None and upright.confidence > 0:
        return upright
    tilted = _checked(_tilted(start, evidence), evidence, mask, depth, size_range)
    return tilted if tilted is not None and tilted.confidence > 0 else upright


def _start(evidence: Evidence, camera_to_base: Pose) -> NDArray[np.float64]:
    """First guess (7,): behind the faces that are seen."""
    middle = np.median(evidence.points, axis=0)
    away = middle[:2] - camera_to_base.position[:2]
    away /= max(1e-6, float(np.linalg.norm(away)))
    top = float(np.percentile(evidence.points[:, 2], 85))
    return np.array([*(middle[:2] + 0.006 * away), top - evidence.nominal / 2, 0.0, evidence.nominal, 0.0, 0.0])


def _upright(start: NDArray[np.float64], evidence: Evidence) -> NDArray[np.float64]:
    cubes = np.repeat(start[None], _STARTS, axis=0)
    cubes[:, YAW] = np.arange(_STARTS) * (math.pi / 2 / _STARTS)
    cubes, cost = minimise(cubes, evidence, steps=3)
    cubes, cost = minimise(cubes[np.argsort(cost)[:2]], evidence, steps=5)
    best = cubes[[int(np.argmin(cost))]]
    if abs(best[0, 2] - best[0, EDGE] / 2) < _TABLE_CONTACT_M:
        best, _ = minimise(best, evidence, steps=3, on_table=True)
    return np.asarray(best[0])


def _tilted(start: NDArray[np.float64], evidence: Evidence) -> NDArray[np.float64]:
    cubes = np.repeat(start[None], _TILT_YAWS * _TILT_STARTS, axis=0)
    cubes[:, YAW] = np.tile(np.arange(_TILT_YAWS) * (math.pi / 2 / _TILT_YAWS), _TILT_STARTS)
    angles = np.repeat(np.arange(_TILT_STARTS) * (2 * math.pi / _TILT_STARTS), _TILT_YAWS)
    cubes[:, UPRIGHT:TILTED] = _TILT_START * np.column_stack([np.cos(angles), np.sin(angles)])
    cubes[:, 2] -= 0.008
    cubes, cost = minimise(cubes, evidence, steps=3, free=TILTED)
    cubes, cost = minimise(cubes[np.argsort(cost)[:4]], evidence, steps=7, free=TILTED)
    return np.asarray(cubes[int(np.argmin(cost))])


def _collect(
    mask: NDArray[np.bool_],
    points: NDArray[np.float32],
    depth: NDArray[np.float32],
    intrinsics: Intrinsics,
    camera_to_base: Pose,
    outline_sigma_px: float,
    nominal: float,
) -> Evidence | None:
    on_faces = known_points(points, inner(mask)).astype(float)
    if len(on_faces) < 15:
        return None
    on_faces = on_faces[:: max(1, len(on_faces) // _MAX_POINTS)]
    middle = np.median(on_faces, axis=0)
    on_faces = on_faces[np.linalg.norm(on_faces - middle, axis=1) < 0.06]
    normals, extents = _outline(mask, points, depth)
    world_to_camera = np.linalg.inv(camera_to_base.matrix)[:3]
    to_pixels = np.array([[0, intrinsics.fy, intrinsics.cy], [intrinsics.fx, 0, intrinsics.cx], [0, 0, 1.0]])
    return Evidence(on_faces, normals, extents, outline_sigma_px, to_pixels @ world_to_camera, nominal)


def _outline(
    mask: NDArray[np.bool_], points: NDArray[np.float32], depth: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Directions in which the region ends because the cube does, and its extent along them."""
    rows, cols = np.nonzero(mask)
    angles = np.arange(_DIRECTIONS) * (2 * math.pi / _DIRECTIONS)
    normals = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    along = normals @ np.stack([rows, cols]).astype(float)
    extents = along.max(axis=1)
    own_depth = float(np.nanmedian(depth[mask]))
    with np.errstate(invalid="ignore"):
        # Not known to be behind the cube, nor known to be the table: it may hide the cube.
        blocker = ~mask & ~(depth > own_depth + 0.02) & ~(points[..., 2] < 0.010)
    # Thin lines are holes and mixed depths at the cube's own edges.
    opened = cv2.morphologyEx(blocker.astype(np.uint8), cv2.MORPH_OPEN, np.ones((4, 4), np.uint8))
    near_blocker = np.asarray(cv2.dilate(opened, np.ones((7, 7), np.uint8))) > 0
    near_blocker[[0, -1], :] = near_blocker[:, [0, -1]] = True
    touched = near_blocker[rows, cols]
    valid = np.array([not touched[along[k] > extents[k] - 0.8].any() for k in range(_DIRECTIONS)])
    return normals[valid], extents[valid] + _PIXEL_MARGIN


def _checked(
    cube: NDArray[np.float64],
    evidence: Evidence,
    mask: NDArray[np.bool_],
    depth: NDArray[np.float32],
    size_range: tuple[float, float],
) -> CubeFit | None:
    """The solution (7,) with what it explains; None if it is no cube of that size."""
    lean = math.hypot(*cube[UPRIGHT:TILTED])
    if not np.all(np.isfinite(cube)) or not size_range[0] <= cube[EDGE] <= size_range[1] or lean > _MAX_TILT:
        return None
    turned = rotations(cube[None])[0]
    # Half the height of a turned cube is half its edge times the sum over its axes' vertical parts.
    foot = float(cube[2] - cube[EDGE] / 2 * np.abs(turned[2]).sum())
    if foot < -_TABLE_CONTACT_M:
        return None
    surface = np.minimum(np.abs(surface_distances(cube[None], evidence.points)[0]), 0.02)
    outline = outline_errors(cube[None], evidence)[0] / evidence.sigma_px if len(evidence.normals) else np.zeros(1)
    hull = cv2.convexHull(np.rint(corner_pixels(cube[None], evidence.projection)[0][:, ::-1]).astype(np.int32))
    model = np.zeros(mask.shape, np.uint8)
    cv2.fillConvexPoly(model, hull, 1)
    inside = model > 0
    area = max(1, int(inside.sum()))
    with np.errstate(invalid="ignore"):
        behind = depth > float(np.nanmedian(depth[mask])) + 0.02
    yaw = math.remainder(float(cube[YAW]), math.pi / 2)
    return CubeFit(
        center=cube[:3].copy(),
        yaw=math.pi / 4 if yaw == -math.pi / 4 else yaw,
        tilt=math.acos(float(np.clip(turned[2, 2], -1.0, 1.0))) if lean > 0 else 0.0,
        size=float(cube[EDGE]),
        depth_rms=float(np.sqrt(np.mean(surface**2))),
        outline_rms=float(np.sqrt(np.mean(outline**2))),
        visible=float((inside & mask).sum()) / area,
        unexplained=float((inside & ~mask & behind).sum()) / area,
    )
