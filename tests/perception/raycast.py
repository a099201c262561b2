"""Pictures of boxes and bowls by ray casting: exact, without a graphics library."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.calibration import load
from vlatools.camera.points import project
from vlatools.camera.ports import RgbdFrame
from vlatools.core.pose import quat_multiply, quat_to_matrix
from vlatools.sim import depth_noise
from vlatools.sim.d435 import d435_intrinsics

INTRINSICS = d435_intrinsics()
CAMERA = load(Path(__file__).parents[2] / "calibration" / "sim_d435.yaml").camera_to_base

RED, YELLOW, BLUE = (200, 25, 20), (225, 190, 15), (25, 55, 190)
WHITE, GREY, DARK = (235, 235, 232), (205, 205, 205), (45, 45, 48)


@dataclass(frozen=True)
class Box:
    """A box: centre, full extents, orientation (3, 3) and colour."""

    center: NDArray[np.float64]
    size: NDArray[np.float64]
    rotation: NDArray[np.float64]
    color: tuple[int, int, int]


def upright(center: object, size: object, color: tuple[int, int, int], yaw: float = 0.0) -> Box:
    rotation = quat_to_matrix((0, 0, math.sin(yaw / 2), math.cos(yaw / 2)))
    extents = np.broadcast_to(np.asarray(size, float), (3,))
    return Box(np.asarray(center, float), extents, rotation, color)


def cube(x: float, y: float, color: tuple[int, int, int], yaw: float = 0.0, size: float = 0.04, z: float = 0.0) -> Box:
    """A cube whose bottom is at height z."""
    return upright((x, y, z + size / 2), size, color, yaw)


def bowl(x: float, y: float, color: tuple[int, int, int] = GREY) -> list[Box]:
    """Sixteen tilted boxes and a floor: 45 mm high, inner radius 62 mm at the rim and 45 mm at the floor, 4 mm thick."""
    height, top, bottom, wall = 0.045, 0.062, 0.045, 0.004
    tilt, length = math.atan2(top - bottom, height), math.hypot(top - bottom, height)
    middle = (top + bottom) / 2 + wall / 2
    parts = [upright((x, y, 0.002), (1.35 * bottom, 1.35 * bottom, 0.004), color)]
    for i in range(16):
        angle = 2 * math.pi * i / 16
        about_z = (0, 0, math.sin(angle / 2), math.cos(angle / 2))
        about_y = (0, math.sin(tilt / 2), 0, math.cos(tilt / 2))
        rotation = quat_to_matrix(quat_multiply(about_z, about_y))
        center = np.array([x + middle * math.cos(angle), y + middle * math.sin(angle), height / 2])
        width = 2 * (top + wall) * math.tan(math.pi / 16) + 0.002
        parts.append(Box(center, np.array([wall, width, length]), rotation, color))
    return parts


@dataclass
class Picture:
    """A table with boxes on it, seen by the simulated laboratory's camera."""

    boxes: list[Box] = field(default_factory=list)
    table: tuple[int, int, int] = WHITE
    brightness: float = 1.0
    seed: int = 0

    def frame(self, noisy: bool = True) -> RgbdFrame:
        k = INTRINSICS
        cols, rows = np.meshgrid(np.arange(k.width), np.arange(k.height))
        rays = np.stack([(cols - k.cx) / k.fx, (rows - k.cy) / k.fy, np.ones(cols.shape)], axis=-1)
        rays = rays @ CAMERA.rotation.T
        with np.errstate(divide="ignore"):
            depth = np.where(rays[..., 2] < 0, -CAMERA.position[2] / rays[..., 2], np.inf)
        hit = CAMERA.position + rays * np.where(np.isfinite(depth), depth, 0)[..., None]
        off = (np.abs(hit[..., 1]) > 0.6) | (hit[..., 0] < 0.0) | (hit[..., 0] > 1.1) | ~np.isfinite(depth)
        color = np.where(off[..., None], 0, np.array(self.table)).astype(float)
        depth[off] = np.inf
        for box in self.boxes:
            _draw(box, rays, depth, color)
        image = np.clip(color * self.brightness, 0, 255).astype(np.uint8)
        exact = depth.astype(np.float32)
        rng = np.random.default_rng(self.seed)
        measured = depth_noise.apply(exact, rng) if noisy else np.where(np.isfinite(exact), exact, np.nan)
        return RgbdFrame(0.0, 1, image, measured.astype(np.float32), k)


def _draw(box: Box, rays: NDArray[np.float64], depth: NDArray[np.float64], color: NDArray[np.float64]) -> None:
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    pixels = project(box.center + (signs * box.size / 2) @ box.rotation.T, INTRINSICS, CAMERA)
    (row0, col0), (row1, col1) = np.nanmin(pixels, axis=0), np.nanmax(pixels, axis=0)
    window = (
        slice(max(0, int(row0) - 1), max(0, int(row1) + 2)),
        slice(max(0, int(col0) - 1), max(0, int(col1) + 2)),
    )
    local_rays = rays[window] @ box.rotation
    origin = (CAMERA.position - box.center) @ box.rotation
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = (-box.size / 2 - origin) / local_rays, (box.size / 2 - origin) / local_rays
    entry, leave = np.minimum(a, b), np.maximum(a, b)
    near, far = entry.max(axis=-1), leave.min(axis=-1)
    hit = (near < far) & (near > 0) & (near < depth[window])
    axis = entry.argmax(axis=-1)
    normals = -np.sign(np.take_along_axis(local_rays, axis[..., None], axis=-1)) * box.rotation.T[axis]
    shade = 0.45 + 0.55 * np.clip(normals[..., 2], 0, 1) + 0.1 * normals[..., 1]
    depth[window] = np.where(hit, near, depth[window])
    color[window] = np.where(hit[..., None], np.array(box.color) * shade[..., None], color[window])
