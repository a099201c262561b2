"""What a D435's stereo depth does to a perfect depth image: noise, holes, fattened edges, limited range, whole millimetres.

The one noise model of the simulated camera, used in served and in lock-step mode alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class DepthNoise:
    """Parameters of the model; the defaults are those of a D435 at 640x480.

    Attributes:
        sigma_at_1m: standard deviation in metres at 1 m; it grows with the square of the distance.
        correlation_px: size of the patches in which the noise is alike (the stereo matcher's window).
        edge_step: depth step in metres between neighbours that counts as an edge.
        edge_dropout: share of edge pixels without depth.
        edge_mixed: share of edge pixels that lie between the two surfaces ("flying pixels").
        dropout: share of all pixels without depth.
        min_range, max_range: metres; outside there is no depth.
        unit: metres per count.
    """

    sigma_at_1m: float = 0.0035
    correlation_px: int = 2
    edge_step: float = 0.015
    edge_dropout: float = 0.5
    edge_mixed: float = 0.25
    dropout: float = 0.004
    min_range: float = 0.28
    max_range: float = 3.0
    unit: float = 0.001


D435 = DepthNoise()


def apply(depth_m: NDArray[np.float32], rng: np.random.Generator, noise: DepthNoise = D435) -> NDArray[np.float32]:
    """Noisy copy of a perfect depth image.

    Args:
        depth_m: float32 (H, W) metres along the optical axis; NaN, infinity or 0 where nothing is.
        rng: source of randomness.
        noise: the model's parameters.

    Returns:
        float32 (H, W) metres, NaN where the camera would give no depth.
    """
    rows, cols = depth_m.shape
    known = np.isfinite(depth_m) & (depth_m > 0)
    clean = np.where(known, depth_m, np.float32(noise.max_range * 2)).astype(np.float32)
    kernel = np.ones((3, 3), np.uint8)
    near, far = cv2.erode(clean, kernel), cv2.dilate(clean, kernel)
    edge = far - near > noise.edge_step

    # Noise drawn on a coarse grid and enlarged is correlated like block matching; the factor restores its variance.
    step = max(1, noise.correlation_px)
    coarse = rng.standard_normal((-(-rows // step), -(-cols // step)), dtype=np.float32)
    field = np.asarray(cv2.resize(coarse, (cols, rows), interpolation=cv2.INTER_LINEAR))
    field = field / np.float32(max(float(field.std()), 1e-6))
    out = clean + np.float32(noise.sigma_at_1m) * clean * clean * field

    edge_rows, edge_cols = np.nonzero(edge)
    draw = rng.random((2, edge_rows.size), dtype=np.float32)
    low, high = near[edge_rows, edge_cols], far[edge_rows, edge_cols]
    mixed = (draw[0] >= noise.edge_dropout) & (draw[0] < noise.edge_dropout + noise.edge_mixed)
    mixed &= (low >= noise.min_range) & (high <= noise.max_range)
    values = np.where(mixed, low + draw[1] * (high - low), out[edge_rows, edge_cols])
    out[edge_rows, edge_cols] = np.where(draw[0] < noise.edge_dropout, np.float32(np.nan), values)

    holes = rng.integers(0, rows * cols, int(noise.dropout * rows * cols))
    out.ravel()[holes] = np.nan
    out = np.round(out / np.float32(noise.unit)) * np.float32(noise.unit)
    out[~known | ~(out >= noise.min_range) | ~(out <= noise.max_range)] = np.nan
    return np.asarray(out, dtype=np.float32)
