"""Fit of a bowl, standing on the table, to the points of its wall: a circle whose radius grows with height.

What makes it a bowl: a wall all the way round, except where something nearer hides it, and nothing as high as the rim inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.points import project
from vlatools.camera.ports import Intrinsics
from vlatools.core import Pose

_SECTORS = 36
_ATTEMPTS = 3
_INLIER_M = 0.006
_TRIALS = 100
_BAND_M = 0.014
_MIN_POINTS = 60
_MIN_COVERAGE = 0.25
_MAX_MISSING = 0.2
_MIN_SEEN = 0.3
_MAX_RMS_M = 0.0035
_LIFTED_M = 0.022
_MAX_FILLED = 0.25
_REFERENCE_M = 0.03


@dataclass(frozen=True)
class BowlFit:
    """A bowl and how well it explains what was seen.

    Attributes:
        center: (2,) x, y of its axis, metres, fr3_link0.
        radius: outer radius of the rim, metres.
        rim: height of the rim above z = 0, metres.
        foot: height of its bottom, 0 for a bowl that stands on the table, metres.
        coverage: share of the directions around the axis in which its wall was seen.
        rms: of the wall's points from the fit, metres.
    """

    center: NDArray[np.float64]
    radius: float
    rim: float
    foot: float
    coverage: float
    rms: float


def find_bowl(
    region: NDArray[np.float64],
    around: NDArray[np.float64],
    camera: NDArray[np.float64],
    radius_range: tuple[float, float],
    height_range: tuple[float, float],
    wall: float,
    rng: np.random.Generator,
) -> BowlFit | None:
    """Fit one bowl to a region's points.

    Args:
        region: (N, 3) metres in fr3_link0: where to look, without unknown points and without what lies in the bowl.
        around: (M, 3) all such points near the region; pieces of wall behind a gripper are among them.
        camera: (3,) position of the camera.
        radius_range: outer radius of the rim, metres.
        height_range: height of the rim, metres.
        wall: thickness of the wall, metres.
        rng: draws the trial circles.

    Returns:
        The fit, or None if this is no bowl.
    """
    for _ in range(_ATTEMPTS):
        start = _best_circle(region, radius_range, height_range, rng) if len(region) >= _MIN_POINTS else None
        if start is None:
            return None
        fit = _fit_at(start, around, camera, radius_range, height_range, wall)
        if fit is not None:
            return fit
        # Something round that is no bowl: look beside it.
        region = region[np.linalg.norm(region[:, :2] - start[:2], axis=1) > start[2] + 0.008]
    return None


def _fit_at(
    start: NDArray[np.float64],
    around: NDArray[np.float64],
    camera: NDArray[np.float64],
    radius_range: tuple[float, float],
    height_range: tuple[float, float],
    wall: float,
) -> BowlFit | None:
    points = around[np.linalg.norm(around[:, :2] - start[:2], axis=1) < start[2] + 0.03]
    solution, inliers = _refine(points, start, camera, wall)
    center, slope = solution[:2], float(solution[3])
    on_wall = points[inliers]
    if len(on_wall) < _MIN_POINTS:
        return None
    rim = _rim_height(on_wall, center, height_range)
    # The fit's radius is the inner one at the reference height.
    radius = float(solution[2]) + slope * (rim - _REFERENCE_M) + wall
    distance = np.linalg.norm(points[:, :2] - center, axis=1)
    filled = float((points[distance < 0.6 * radius, 2] > rim - 0.012).sum()) / len(on_wall)
    coverage = _coverage(on_wall[:, :2], center)
    good = (
        coverage >= _MIN_COVERAGE
        and filled <= _MAX_FILLED
        and radius_range[0] <= radius <= radius_range[1]
        and height_range[0] <= rim <= height_range[1]
        and -0.3 <= slope <= 1.5
    )
    if not good:
        return None
    rms = float(np.sqrt(np.mean(_wall_residual(solution, on_wall, camera, wall) ** 2)))
    if rms > _MAX_RMS_M:
        return None
    lowest = float(np.percentile(on_wall[:, 2], 3))
    foot = lowest if lowest > _LIFTED_M else 0.0
    return BowlFit(center.copy(), radius, rim, foot, coverage, rms)


def is_borne_out(fit: BowlFit, depth: NDArray[np.float32], intrinsics: Intrinsics, camera_to_base: Pose) -> bool:
    """Whether the image agrees with a rim there: it is seen in enough places, and hardly anywhere is what lies behind it."""
    angles = np.arange(_SECTORS) * (2 * math.pi / _SECTORS)
    middle = fit.radius - 0.002
    rim = np.column_stack(
        [
            fit.center[0] + middle * np.cos(angles),
            fit.center[1] + middle * np.sin(angles),
            np.full(_SECTORS, fit.rim - 0.004),
        ]
    )
    expected = (rim - camera_to_base.position) @ camera_to_base.rotation[:, 2]
    pixels = np.rint(project(rim, intrinsics, camera_to_base)).astype(int)
    inside = np.all((pixels >= 3) & (pixels < [intrinsics.height - 3, intrinsics.width - 3]), axis=1)
    reach = np.arange(-3, 4)
    rows = pixels[inside, 0, None, None] + reach[None, :, None]
    cols = pixels[inside, 1, None, None] + reach[None, None, :]
    patches = depth[rows, cols].reshape(int(inside.sum()), -1)
    # Sorted, unknown depth comes last: take the value at 15 % of the known ones, the nearest without outliers.
    known = np.isfinite(patches).sum(axis=1)
    nearest = np.sort(patches, axis=1)[np.arange(len(patches)), (0.15 * known).astype(int)] - expected[inside]
    seen = int(np.count_nonzero(np.abs(nearest) < 0.015))
    missing = int(np.count_nonzero(nearest > 0.015))
    return missing <= _MAX_MISSING * _SECTORS and seen >= _MIN_SEEN * _SECTORS


def _best_circle(
    points: NDArray[np.float64],
    radius_range: tuple[float, float],
    height_range: tuple[float, float],
    rng: np.random.Generator,
) -> NDArray[np.float64] | None:
    """Circle (cx, cy, r) around which most directions hold points of one height band, by random trials."""
    best, best_score = None, 0.0
    tops = np.unique(np.clip(np.percentile(points[:, 2], (60, 80, 95)), *height_range).round(3))
    for top in tops:
        band = points[(points[:, 2] > top - _BAND_M) & (points[:, 2] < top + 0.004)][:, :2]
        if len(band) < _MIN_POINTS // 2:
            continue
        triples = band[rng.integers(0, len(band), (_TRIALS, 3))]
        centers, radii = _circumcircles(triples)
        usable = np.isfinite(radii) & (radii > radius_range[0] * 0.7) & (radii < radius_range[1] * 1.05)
        centers, radii = centers[usable], radii[usable]
        if len(centers) == 0:
            continue
        sample = band[:: max(1, len(band) // 200)]
        dx = sample[None, :, 0] - centers[:, 0, None]
        dy = sample[None, :, 1] - centers[:, 1, None]
        near = np.abs(np.hypot(dx, dy) - radii[:, None]) < _INLIER_M
        # Coverage is the slower half of the score: only the circles with the most points get it.
        for i in np.argsort(-near.sum(axis=1))[:12]:
            if near[i].sum() < 20:
                break
            score = _coverage(sample[near[i]], centers[i]) + 0.5 * float(near[i].mean())
            if score > best_score:
                best, best_score = np.array([*centers[i], radii[i]]), score
    return best if best_score > _MIN_COVERAGE + 0.15 else None


def _circumcircles(triples: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centres (T, 2) and radii (T,) through triples (T, 3, 2)."""
    a, b, c = triples[:, 0], triples[:, 1] - triples[:, 0], triples[:, 2] - triples[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        det = 2 * (b[:, 0] * c[:, 1] - b[:, 1] * c[:, 0])
        b2, c2 = (b**2).sum(axis=1), (c**2).sum(axis=1)
        x = (c[:, 1] * b2 - b[:, 1] * c2) / det
        y = (b[:, 0] * c2 - c[:, 0] * b2) / det
    return a + np.stack([x, y], axis=1), np.hypot(x, y)


def _coverage(points: NDArray[np.float64], center: NDArray[np.float64]) -> float:
    return float(np.count_nonzero(np.bincount(_sectors(points - center), minlength=_SECTORS))) / _SECTORS


def _wall_residual(
    solution: NDArray[np.float64], points: NDArray[np.float64], camera: NDArray[np.float64], wall: float
) -> NDArray[np.float64]:
    """Distance of points from the side of the wall that the camera sees, horizontally; solution: cx, cy, r, slope."""
    offset = points[:, :2] - solution[:2]
    distance = np.linalg.norm(offset, axis=1)
    outward = offset / np.maximum(distance, 1e-6)[:, None]
    to_camera = camera[None] - points
    slope = float(solution[3])
    outer = (outward * to_camera[:, :2]).sum(axis=1) - slope * to_camera[:, 2] > 0
    radius = solution[2] + slope * (points[:, 2] - _REFERENCE_M) + wall * outer
    return np.asarray(distance - radius)


def _refine(
    points: NDArray[np.float64], start: NDArray[np.float64], camera: NDArray[np.float64], wall: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Gauss-Newton with Huber weights on centre, inner radius at the reference height and slope."""
    solution = np.array([*start, 0.35])
    inliers = np.ones(len(points), bool)
    for gate in (0.014, 0.010, 0.008, 0.008, 0.008):
        residual = _wall_residual(solution, points, camera, wall)
        inliers = np.abs(residual) < gate
        if inliers.sum() < _MIN_POINTS:
            break
        near, chosen = residual[inliers], points[inliers]
        offset = chosen[:, :2] - solution[:2]
        outward = offset / np.maximum(np.linalg.norm(offset, axis=1), 1e-6)[:, None]
        jacobian = np.column_stack([-outward, -np.ones(len(near)), -(chosen[:, 2] - _REFERENCE_M)])
        weight = np.minimum(1.0, 0.003 / np.maximum(np.abs(near), 1e-9))
        # Every direction counts alike, however many pixels it got.
        sector = _sectors(offset)
        weight /= np.bincount(sector, minlength=_SECTORS)[sector] ** 0.5
        normal = (jacobian * weight[:, None]).T @ jacobian + np.diag([1e-9, 1e-9, 1e-9, 1e-6])
        step = -np.linalg.solve(normal, (jacobian * weight[:, None]).T @ near)
        solution = solution + np.clip(step, -0.02, 0.02 * np.array([1, 1, 1, 20]))
    return solution, inliers


def _rim_height(points: NDArray[np.float64], center: NDArray[np.float64], height_range: tuple[float, float]) -> float:
    """Height that the wall reaches: the median over directions of its highest points there, noise taken off."""
    sector = _sectors(points[:, :2] - center)
    order = np.lexsort((points[:, 2], sector))
    counts = np.bincount(sector, minlength=_SECTORS)
    # In each sector, sorted by height, the point at 92 %.
    picks = (np.cumsum(counts) - counts + np.floor(0.92 * np.maximum(counts - 1, 0)).astype(int))[counts >= 4]
    if len(picks) == 0:
        return height_range[0]
    return float(np.clip(np.median(points[order[picks], 2]), *height_range))


def _sectors(offsets: NDArray[np.float64]) -> NDArray[np.int64]:
    """Sector number, 0 to ``_SECTORS`` - 1, of the direction of each offset (N, 2)."""
    angle = np.arctan2(offsets[:, 1], offsets[:, 0])
    return np.asarray(((angle + math.pi) * (_SECTORS / (2 * math.pi))).astype(int) % _SECTORS)
