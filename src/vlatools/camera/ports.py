"""Ports of the camera floor: an RGB-D frame of one instant and a camera that gives the newest one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Intrinsics:
    """Pinhole model of the colour camera (depth is aligned to it); fx, fy, cx, cy in pixels.

    ``distortion`` holds the five plumb_bob coefficients; the D435's colour stream is rectified, so they are 0.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Camera matrix K (3, 3)."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1.0]])


@dataclass(frozen=True)
class RgbdFrame:
    """Colour and aligned depth of one instant.

    Attributes:
        stamp_s: monotonic time of the exposure.
        number: the device's frame number; it must advance.
        color: uint8 (H, W, 3) RGB.
        depth: float32 (H, W) metres along the optical axis, NaN where unknown.
        intrinsics: of both images.
        skew_s: time between the colour and the depth exposure.
    """

    stamp_s: float
    number: int
    color: NDArray[np.uint8]
    depth: NDArray[np.float32]
    intrinsics: Intrinsics
    skew_s: float = 0.0


class RgbdCamera(Protocol):
    """A camera whose freshness is explicit."""

    def latest(self, max_age_s: float) -> RgbdFrame:
        """Newest frame. Raises StaleData(``camera``) when it is older than ``max_age_s`` or none has come."""
        ...

    def wait_after(self, stamp_s: float, timeout_s: float) -> RgbdFrame:
        """First frame exposed after ``stamp_s``. Raises StaleData(``camera``) when none came within ``timeout_s``."""
        ...
