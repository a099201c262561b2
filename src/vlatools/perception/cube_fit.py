"""Fit of an upright cube to what a camera sees of it: depth on its faces and the outline of its region.

The outline (colour has no noise worth speaking of) fixes the position across the view, the depth that along it. Where the outline borders
on something nearer, the cube is hidden and the outline says nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics
from vlatools.core import Pose
from vlatools.perception.regions import window

_DIRECTIONS = 32
_DEPTH_SIGMA_M = 0.004
_SIZE_SIGMA_M = 0.008
_TABLE_SIGMA_M = 0.002
_TABLE_CONTACT_M = 0.010
_MAX_POINTS = 160
_STARTS = 5
_BORDER = 16
# A pixel belongs to the region when its centre does, so the outline lies about this far outside the outermost centres.
_PIXEL_MARGIN = 0.35
_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])


@dataclass(frozen=True)
class CubeFit:
    """A cube and how well it explains what was seen.

    Attributes:
        center: (3,) metres, fr3_link0.
        yaw: radians in (-pi/4, pi/4].
        size: edge in metres.
        depth_rms: of the points from the cube's surface, metres.
        outline_rms: of the outline, pixels.
        visible: share of the cube's outline area that its region covers.
        unexplained: share of the outline area that is neither its region nor behind something nearer.
    """

    center: NDArray[np.float64]
    yaw: float
    size: float
    depth_rms: float
    outline_rms: float
    visible: float
    unexplained: float


@dataclass(frozen=True)
class _Evidence:
    points: NDArray[np.float64]  # (N, 3) on the faces
    normals: NDArray[np.float64]  # (K, 2) outline directions (row, col) that count
    extents: NDArray[np.float64]  # (K,) extent of the region along them, pixels
    sigma_px: float  # of the extents
    projection: NDArray[np.float64]  # (3, 4) base frame to homogeneous (row, col)


def fit_cube(
    mask: NDArray[np.bool_],
    points: NDArray[np.float32],
    depth: NDArray[np.float32],
    intrinsics: Intrinsics,
    camera_to_base: Pose,
    size_range: tuple[float, float],
    outline_sigma_px: float = 0.8,
) -> CubeFit | None:
    """Fit a cube to a region.

    Args:
        mask: bool (H, W), the region.
        points: float32 (H, W, 3) in fr3_link0, NaN where unknown.
        depth: float32 (H, W) metres, NaN where unknown.
        intrinsics, camera_to_base: of the camera.
        size_range: smallest and largest edge in metres.
        outline_sigma_px: how exact the region's outline is.

    Returns:
        The fit, or None when too little is seen.
    """
    box = window(mask, _BORDER)
    mask, points, depth = mask[box], points[box], depth[box]
    if mask.size == 0:
        return None
    intrinsics = replace(intrinsics, cx=intrinsics.cx - box[1].start, cy=intrinsics.cy - box[0].start)
    evidence = _collect(mask, points, depth, intrinsics, camera_to_base, outline_sigma_px)
    if evidence is None:
        return None
    nominal = (size_range[0] + size_range[1]) / 2
    middle = np.median(evidence.points, axis=0)
    away = middle[:2] - camera_to_base.position[:2]
    away /= max(1e-6, float(np.linalg.norm(away)))
    top = float(np.percentile(evidence.points[:, 2], 85))
    start = np.array([*(middle[:2] + 0.006 * away), top - nominal / 2, 0.0, nominal])
    params = np.repeat(start[None], _STARTS, axis=0)
    params[:, 3] = np.arange(_STARTS) * (math.pi / 2 / _STARTS)
    params, cost = _minimise(params, evidence, nominal, on_table=False, steps=3)
    best = params[np.argsort(cost)[:2]]
    best, cost = _minimise(best, evidence, nominal, on_table=False, steps=5)
    params = best[[int(np.argmin(cost))]]
    if abs(params[0, 2] - params[0, 4] / 2) < _TABLE_CONTACT_M:
        params, _ = _minimise(params, evidence, nominal, on_table=True, steps=3)
    solution = params[0]
    if not np.all(np.isfinite(solution)) or not size_range[0] <= solution[4] <= size_range[1]:
        return None
    return _judge(solution, evidence, mask, depth)


def _collect(
    mask: NDArray[np.bool_],
    points: NDArray[np.float32],
    depth: NDArray[np.float32],
    intrinsics: Intrinsics,
    camera_to_base: Pose,
    outline_sigma_px: float,
) -> _Evidence | None:
    inner = cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    on_faces = points[inner]
    on_faces = on_faces[np.isfinite(on_faces[:, 2])].astype(float)
    if len(on_faces) < 15:
        return None
    on_faces = on_faces[:: max(1, len(on_faces) // _MAX_POINTS)]
    middle = np.median(on_faces, axis=0)
    on_faces = on_faces[np.linalg.norm(on_faces - middle, axis=1) < 0.06]
    normals, extents = _outline(mask, points, depth)
    world_to_camera = np.linalg.inv(camera_to_base.matrix)[:3]
    to_pixels = np.array([[0, intrinsics.fy, intrinsics.cy], [intrinsics.fx, 0, intrinsics.cx], [0, 0, 1.0]])
    return _Evidence(on_faces, normals, extents, outline_sigma_px, to_pixels @ world_to_camera)


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


def _residuals(params: NDArray[np.float64], evidence: _Evidence, nominal: float, on_table: bool) -> NDArray[np.float64]:
    """Weighted residuals (B, M) of cubes (B, 5): x, y, z, yaw, edge."""
    cos, sin = np.cos(params[:, 3, None]), np.sin(params[:, 3, None])
    half = params[:, 4, None] / 2
    dx = evidence.points[None, :, 0] - params[:, 0, None]
    dy = evidence.points[None, :, 1] - params[:, 1, None]
    qx = np.abs(cos * dx + sin * dy) - half
    qy = np.abs(cos * dy - sin * dx) - half
    qz = np.abs(evidence.points[None, :, 2] - params[:, 2, None]) - half
    largest = np.maximum(np.maximum(qx, qy), qz)
    outside = np.sqrt(np.maximum(qx, 0) ** 2 + np.maximum(qy, 0) ** 2 + np.maximum(qz, 0) ** 2)
    surface = (np.where(largest > 0, outside, largest)) / _DEPTH_SIGMA_M
    # Points are many and their noise is correlated: count them as fewer.
    parts = [surface * math.sqrt(60.0 / max(60, surface.shape[1]))]
    if len(evidence.normals):
        pixels = _corner_pixels(params, evidence.projection)
        reach = (pixels @ evidence.normals.T).max(axis=1)
        parts.append((reach - evidence.extents) / evidence.sigma_px)
    parts.append((params[:, 4:5] - nominal) / _SIZE_SIGMA_M)
    if on_table:
        parts.append((params[:, 2:3] - params[:, 4:5] / 2) / _TABLE_SIGMA_M)
    return np.concatenate(parts, axis=1)


def _corner_pixels(params: NDArray[np.float64], projection: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pixels (B, 8, 2) as (row, col) of the corners."""
    cos, sin = np.cos(params[:, 3, None]), np.sin(params[:, 3, None])
    local = _CORNERS[None] * params[:, 4, None, None]
    x = params[:, 0, None] + cos * local[..., 0] - sin * local[..., 1]
    y = params[:, 1, None] + sin * local[..., 0] + cos * local[..., 1]
    z = params[:, 2, None] + local[..., 2]
    homogeneous = np.stack([x, y, z, np.ones_like(x)], axis=-1) @ projection.T
    return np.asarray(homogeneous[..., :2] / homogeneous[..., 2:])


def _huber(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights that bound the pull of outliers (beyond 2 sigma)."""
    return np.asarray(np.minimum(1.0, 2.0 / np.maximum(np.abs(residuals), 1e-9)))


def _cost(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((_huber(residuals) * residuals**2).sum(axis=1))


def _minimise(
    params: NDArray[np.float64], evidence: _Evidence, nominal: float, on_table: bool, steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Levenberg-Marquardt on a batch of cubes at once; returns parameters (B, 5) and costs (B,)."""
    deltas = np.array([1e-4, 1e-4, 1e-4, 2e-3, 1e-4])
    batch = len(params)
    residuals = _residuals(params, evidence, nominal, on_table)
    cost = _cost(residuals)
    damping = np.full(batch, 1e-3)
    for _ in range(steps):
        moved = (params[:, None, :] + np.diag(deltas)[None]).reshape(-1, 5)
        jacobian = _residuals(moved, evidence, nominal, on_table).reshape(batch, 5, -1) - residuals[:, None, :]
        jacobian /= deltas[None, :, None]
        weighted = jacobian * _huber(residuals)[:, None, :]
        normal = weighted @ jacobian.transpose(0, 2, 1)
        gradient = (weighted @ residuals[:, :, None])[..., 0]
        diagonal = np.diagonal(normal, axis1=1, axis2=2)
        damped = normal + np.eye(5)[None] * (damping[:, None] * diagonal + 1e-9)[:, None, :]
        step = -np.linalg.solve(damped, gradient[..., None])[..., 0]
        limit = np.array([0.02, 0.02, 0.02, 0.4, 0.01])
        trial = params + np.clip(step, -limit, limit)
        trial_residuals = _residuals(trial, evidence, nominal, on_table)
        trial_cost = _cost(trial_residuals)
        better = trial_cost < cost
        params = np.where(better[:, None], trial, params)
        residuals = np.where(better[:, None], trial_residuals, residuals)
        cost = np.where(better, trial_cost, cost)
        damping = np.where(better, damping * 0.3, damping * 10)
    return params, cost


def _judge(solution: NDArray[np.float64], evidence: _Evidence, mask: NDArray[np.bool_], depth: NDArray[np.float32]) -> CubeFit:
    count = len(evidence.points)
    residuals = _residuals(solution[None], evidence, float(solution[4]), on_table=False)[0]
    surface = residuals[:count] * _DEPTH_SIGMA_M / math.sqrt(60.0 / max(60, count))
    outline = residuals[count : count + len(evidence.normals)] * evidence.sigma_px
    pixels = _corner_pixels(solution[None], evidence.projection)[0]
    hull = cv2.convexHull(np.rint(pixels[:, ::-1]).astype(np.int32))
    model = np.zeros(mask.shape, np.uint8)
    cv2.fillConvexPoly(model, hull, 1)
    inside = model > 0
    area = max(1, int(inside.sum()))
    own_depth = float(np.nanmedian(depth[mask]))
    missing = inside & ~mask
    with np.errstate(invalid="ignore"):
        hidden = missing & ~(depth > own_depth + 0.02)
    yaw = math.remainder(float(solution[3]), math.pi / 2)
    return CubeFit(
        center=solution[:3].copy(),
        yaw=math.pi / 4 if yaw == -math.pi / 4 else yaw,
        size=float(solution[4]),
        depth_rms=float(np.sqrt(np.mean(np.minimum(np.abs(surface), 0.02) ** 2))),
        outline_rms=float(np.sqrt(np.mean(outline**2))) if len(outline) else math.nan,
        visible=float((inside & mask).sum()) / area,
        unexplained=float((missing & ~hidden).sum()) / area,
    )
