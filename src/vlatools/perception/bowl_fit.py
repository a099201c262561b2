"""Fit of a bowl, standing on the table, to the points of its wall: a circle whose radius grows with height.

What makes it a bowl: a wall most of the way round, and nothing as high as the rim inside (or only what was put in).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SECTORS = 36
_INLIER_M = 0.006
_TRIALS = 160
_BAND_M = 0.014
_MIN_POINTS = 60
_MIN_COVERAGE = 0.45
_MAX_FILLED = 0.25


@dataclass(frozen=True)
class BowlFit:
    """A bowl and how well it explains what was seen.

    Attributes:
        center: (2,) x, y of its axis, metres, fr3_link0.
        radius: outer radius of the rim, metres.
        rim: height of the rim above z = 0, metres.
        coverage: share of the directions around the axis in which its wall was seen.
        rms: of the wall's points from the fit, metres.
    """

    center: NDArray[np.float64]
    radius: float
    rim: float
    coverage: float
    rms: float


def fit_bowl(
    points: NDArray[np.float64],
    camera: NDArray[np.float64],
    radius_range: tuple[float, float],
    height_range: tuple[float, float],
    wall: float,
    rng: np.random.Generator,
) -> BowlFit | None:
    """Fit one bowl to a region's points.

    Args:
        points: (N, 3) metres in fr3_link0, without unknown ones and without what lies in the bowl.
        camera: (3,) position of the camera.
        radius_range: outer radius of the rim, metres.
        height_range: height of the rim, metres.
        wall: thickness of the wall, metres.
        rng: draws the trial circles.

    Returns:
        The fit, or None if this is no bowl.
    """
    points = points[points[:, 2] < height_range[1] + 0.01]
    if len(points) < _MIN_POINTS:
        return None
    start = _best_circle(points, radius_range, height_range, rng)
    if start is None:
        return None
    solution, inliers = _refine(points, start, camera, wall)
    center, slope = solution[:2], float(solution[3])
    on_wall = points[inliers]
    if len(on_wall) < _MIN_POINTS:
        return None
    coverage = _coverage(on_wall, center)
    rim = _rim_height(on_wall, center, height_range)
    # The fit's radius is the inner one at the reference height.
    radius = float(solution[2]) + slope * (rim - _REFERENCE_M) + wall
    distance = np.linalg.norm(points[:, :2] - center, axis=1)
    inside = points[distance < 0.6 * radius]
    filled = float((inside[:, 2] > rim - 0.012).sum()) / max(1, len(on_wall))
    good = (
        coverage >= _MIN_COVERAGE
        and filled <= _MAX_FILLED
        and radius_range[0] <= radius <= radius_range[1]
        and height_range[0] <= rim <= height_range[1]
        and -0.3 <= slope <= 1.5
    )
    if not good:
        return None
    residual = _wall_residual(solution, on_wall, camera, wall)
    return BowlFit(center.copy(), radius, rim, coverage, float(np.sqrt(np.mean(residual**2))))


_REFERENCE_M = 0.03


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
        sample = band[:: max(1, len(band) // 250)]
        for center, radius in zip(centers[usable], radii[usable], strict=True):
            offset = sample - center
            near = np.abs(np.hypot(offset[:, 0], offset[:, 1]) - radius) < _INLIER_M
            if near.sum() < 20:
                continue
            score = _coverage(sample[near], center) + 0.5 * float(near.mean())
            if score > best_score:
                best, best_score = np.array([*center, radius]), score
    return best if best_score > _MIN_COVERAGE else None


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
    angle = np.arctan2(points[:, 1] - center[1], points[:, 0] - center[0])
    sectors = np.unique(((angle + math.pi) * (_SECTORS / (2 * math.pi))).astype(int) % _SECTORS)
    return len(sectors) / _SECTORS


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
        sector = ((np.arctan2(offset[:, 1], offset[:, 0]) + math.pi) * (_SECTORS / (2 * math.pi))).astype(int) % _SECTORS
        weight /= np.bincount(sector, minlength=_SECTORS)[sector] ** 0.5
        normal = (jacobian * weight[:, None]).T @ jacobian + np.diag([1e-9, 1e-9, 1e-9, 1e-6])
        step = -np.linalg.solve(normal, (jacobian * weight[:, None]).T @ near)
        solution = solution + np.clip(step, -0.02, 0.02 * np.array([1, 1, 1, 20]))
    return solution, inliers


def _rim_height(points: NDArray[np.float64], center: NDArray[np.float64], height_range: tuple[float, float]) -> float:
    """Height that the wall reaches: the median over directions of its highest points there, noise taken off."""
    angle = np.arctan2(points[:, 1] - center[1], points[:, 0] - center[0])
    sector = ((angle + math.pi) * (_SECTORS / (2 * math.pi))).astype(int) % _SECTORS
    tops = [np.percentile(points[sector == k, 2], 92) for k in range(_SECTORS) if (sector == k).sum() >= 4]
    return float(np.clip(np.median(tops), *height_range)) if tops else height_range[0]
