"""Least squares of cubes against evidence: many hypotheses at once, robust against outliers.

A cube is seven numbers: x, y, z of its centre (m), yaw (rad), edge (m), and a tilt vector (rad) about base x and y that is applied
after the yaw. An upright cube has no tilt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UPRIGHT, TILTED = 5, 7  # how many of the numbers are free
EDGE, YAW = 4, 3
_DEPTH_SIGMA_M = 0.004
_SIZE_SIGMA_M = 0.008
_TABLE_SIGMA_M = 0.002
_EFFECTIVE_POINTS = 60
_DELTAS = np.array([1e-4, 1e-4, 1e-4, 2e-3, 1e-4, 2e-3, 2e-3])
_STEP_LIMITS = np.array([0.02, 0.02, 0.02, 0.4, 0.01, 0.3, 0.3])
_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])


@dataclass(frozen=True)
class Evidence:
    """What is known of a cube.

    Attributes:
        points: (N, 3) on its faces, metres, fr3_link0.
        normals: (K, 2) directions in the image (row, col) in which its outline was seen.
        extents: (K,) extent of the outline along them, pixels.
        sigma_px: standard deviation of the extents, pixels.
        projection: (3, 4) from fr3_link0 to homogeneous (row, col).
        nominal: expected edge, metres.
    """

    points: NDArray[np.float64]
    normals: NDArray[np.float64]
    extents: NDArray[np.float64]
    sigma_px: float
    projection: NDArray[np.float64]
    nominal: float


def rotations(cubes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotation matrices (B, 3, 3) of cubes (B, 7)."""
    cos, sin = np.cos(cubes[:, YAW]), np.sin(cubes[:, YAW])
    turned = np.zeros((len(cubes), 3, 3))
    turned[:, 0, 0], turned[:, 0, 1] = cos, -sin
    turned[:, 1, 0], turned[:, 1, 1] = sin, cos
    turned[:, 2, 2] = 1.0
    tilt = cubes[:, UPRIGHT:TILTED]
    if not tilt.any():
        return turned
    angle = np.linalg.norm(tilt, axis=1)
    x, y = (tilt / np.maximum(angle, 1e-12)[:, None]).T
    skew = np.zeros_like(turned)
    skew[:, 0, 2], skew[:, 1, 2] = y, -x
    skew[:, 2, 0], skew[:, 2, 1] = -y, x
    tilted = np.eye(3) + np.sin(angle)[:, None, None] * skew + (1 - np.cos(angle))[:, None, None] * (skew @ skew)
    return np.asarray(tilted @ turned)


def surface_distances(cubes: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Signed distances (B, N), positive outside, of points (N, 3) from the surfaces of cubes (B, 7); metres."""
    local = rotations(cubes).transpose(0, 2, 1) @ (points.T[None] - cubes[:, :3, None])
    np.abs(local, out=local)
    local -= cubes[:, EDGE, None, None] / 2
    x, y, z = local[:, 0], local[:, 1], local[:, 2]
    largest = np.maximum(np.maximum(x, y), z)
    np.maximum(local, 0.0, out=local)
    return np.asarray(np.where(largest > 0, np.sqrt(x * x + y * y + z * z), largest))


def corner_pixels(cubes: NDArray[np.float64], projection: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pixels (B, 8, 2) as (row, col) of the corners of cubes (B, 7)."""
    corners = (_CORNERS[None] * cubes[:, EDGE, None, None]) @ rotations(cubes).transpose(0, 2, 1) + cubes[:, None, :3]
    homogeneous = corners @ projection[:, :3].T + projection[:, 3]
    return np.asarray(homogeneous[..., :2] / homogeneous[..., 2:])


def outline_errors(cubes: NDArray[np.float64], evidence: Evidence) -> NDArray[np.float64]:
    """How far (B, K) the outlines of cubes (B, 7) reach beyond the one that was seen, pixels."""
    reach = (corner_pixels(cubes, evidence.projection) @ evidence.normals.T).max(axis=1)
    return np.asarray(reach - evidence.extents)


def _residuals(cubes: NDArray[np.float64], evidence: Evidence, on_table: bool) -> NDArray[np.float64]:
    """Weighted residuals (B, M)."""
    # Points are many and their noise is correlated: count them as fewer.
    weight = math.sqrt(_EFFECTIVE_POINTS / max(_EFFECTIVE_POINTS, len(evidence.points))) / _DEPTH_SIGMA_M
    parts = [surface_distances(cubes, evidence.points) * weight]
    if len(evidence.normals):
        parts.append(outline_errors(cubes, evidence) / evidence.sigma_px)
    parts.append((cubes[:, EDGE, None] - evidence.nominal) / _SIZE_SIGMA_M)
    if on_table:
        parts.append((cubes[:, 2, None] - cubes[:, EDGE, None] / 2) / _TABLE_SIGMA_M)
    return np.concatenate(parts, axis=1)


def _weights(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Huber weights that bound the pull of outliers (beyond 2 sigma)."""
    return np.asarray(np.minimum(1.0, 2.0 / np.maximum(np.abs(residuals), 1e-9)))


def _cost(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((_weights(residuals) * residuals**2).sum(axis=1))


def minimise(
    cubes: NDArray[np.float64], evidence: Evidence, steps: int, free: int = UPRIGHT, on_table: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Levenberg-Marquardt on a batch of cubes at once.

    Args:
        cubes: (B, 7) where to start.
        evidence: what to explain.
        steps: iterations.
        free: UPRIGHT or TILTED.
        on_table: the cube rests on z = 0.

    Returns:
        Cubes (B, 7) and their costs (B,).
    """
    batch = len(cubes)
    residuals = _residuals(cubes, evidence, on_table)
    cost = _cost(residuals)
    damping = np.full(batch, 1e-3)
    nudges = np.diag(_DELTAS)[:free]
    for _ in range(steps):
        moved = (cubes[:, None, :] + nudges[None]).reshape(-1, TILTED)
        jacobian = _residuals(moved, evidence, on_table).reshape(batch, free, -1) - residuals[:, None, :]
        jacobian /= _DELTAS[None, :free, None]
        weighted = jacobian * _weights(residuals)[:, None, :]
        normal = weighted @ jacobian.transpose(0, 2, 1)
        gradient = weighted @ residuals[:, :, None]
        diagonal = np.diagonal(normal, axis1=1, axis2=2)
        damped = normal + np.eye(free)[None] * (damping[:, None] * diagonal + 1e-6)[:, None, :]
        step = np.zeros((batch, TILTED))
        step[:, :free] = -np.linalg.solve(damped, gradient)[..., 0]
        trial = cubes + np.clip(step, -_STEP_LIMITS, _STEP_LIMITS)
        trial_residuals = _residuals(trial, evidence, on_table)
        trial_cost = _cost(trial_residuals)
        better = trial_cost < cost
        cubes = np.where(better[:, None], trial, cubes)
        residuals = np.where(better[:, None], trial_residuals, residuals)
        cost = np.where(better, trial_cost, cost)
        damping = np.where(better, damping * 0.3, damping * 10)
    return cubes, cost
