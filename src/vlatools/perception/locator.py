"""Objects on the table from one RGB-D frame: regions from a segmenter, geometry fitted to each, names given.

Nothing is reported that its geometry does not bear out: a red thing that is no cube is no "red cube".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from vlatools.camera.points import point_map
from vlatools.camera.ports import RgbdFrame
from vlatools.core import Pose
from vlatools.perception.bowl_fit import BowlFit, find_bowl, is_borne_out
from vlatools.perception.color_segmenter import SHARP_SCORE, ColorSegmenter
from vlatools.perception.config import PerceptionConfig
from vlatools.perception.cube_fit import fit_cube
from vlatools.perception.naming import assign, match, parse
from vlatools.perception.ports import DetectedObject, Scene, Segment, Segmenter
from vlatools.perception.regions import known_points, window

_OUTLINE_PX = 0.8
_BOWLS_PER_REGION = 3


class Locator:
    """Locates cubes, bowls and whatever the segmenter finds by name. Stateless and deterministic."""

    def __init__(self, segmenter: Segmenter | None = None, config: PerceptionConfig | None = None) -> None:
        self.config = config or PerceptionConfig()
        self._segmenter: Segmenter = segmenter or ColorSegmenter(self.config)
        self._colors = tuple(color.name for color in self.config.colors)

    def locate(self, frame: RgbdFrame, camera_to_base: Pose, names: Sequence[str] | None = None) -> Scene:
        """What stands on the table.

        Args:
            frame: colour and aligned depth.
            camera_to_base: pose of the camera's optical frame in fr3_link0.
            names: report only these, under these names, e.g. ``left bowl``; None or empty reports all.

        Returns:
            The scene; what was asked for and not seen is not in it. A lone bowl is "bowl"; asked for as "left bowl" it is
            that when it stands on the left, because its equal may be hidden.
        """
        points = point_map(frame.depth, frame.intrinsics, camera_to_base)
        segments = self._segmenter.segment(frame.color, points, "")
        cubes = self._cubes(segments, points, frame, camera_to_base)
        bowls = self._bowls(segments, points, frame, camera_to_base)
        everything = assign([*cubes, *bowls])
        if not names:
            return Scene(frame.stamp_s, everything)
        chosen: dict[str, DetectedObject] = {}
        for name in names:
            exact = next((thing for thing in everything if thing.name == name), None)
            thing = exact or self._asked(name, everything, frame, points)
            if thing is not None:
                chosen[name] = replace(thing, name=name)
        return Scene(frame.stamp_s, tuple(sorted(chosen.values(), key=lambda thing: thing.name)))

    def _asked(
        self, name: str, everything: Sequence[DetectedObject], frame: RgbdFrame, points: NDArray[np.float32]
    ) -> DetectedObject | None:
        query = parse(name, self._colors)
        if query.known:
            found = match(query, everything)
            return found[0] if len(found) == 1 else None
        segments = self._segmenter.segment(frame.color, points, name)
        return _generic(segments[0], points, name) if segments else None

    def _cubes(
        self, segments: Sequence[Segment], points: NDArray[np.float32], frame: RgbdFrame, camera_to_base: Pose
    ) -> list[DetectedObject]:
        found = []
        for segment in segments:
            query = parse(segment.label, self._colors)
            if query.category != "cube":
                continue
            outline_px = _OUTLINE_PX if segment.score >= SHARP_SCORE else 2.5 * _OUTLINE_PX
            fit = fit_cube(
                segment.mask,
                points,
                frame.depth,
                frame.intrinsics,
                camera_to_base,
                self.config.cube_size,
                outline_px,
            )
            if fit is None:
                continue
            if fit.confidence >= self.config.min_confidence:
                found.append(_detected("cube", query.color, fit.confidence, fit.center, fit.yaw, (fit.size,) * 3, segment.mask))
        return found

    def _bowls(
        self, segments: Sequence[Segment], points: NDArray[np.float32], frame: RgbdFrame, camera_to_base: Pose
    ) -> list[DetectedObject]:
        queries = [parse(segment.label, self._colors) for segment in segments]
        candidates = [(s, q) for s, q in zip(segments, queries, strict=True) if q.category == "bowl"]
        if not candidates:
            return []
        config = self.config
        (x0, x1), (y0, y1) = config.workspace_x, config.workspace_y
        low = np.asarray(cv2.inRange(points, (x0, y0, config.min_height), (x1, y1, config.bowl_height[1] + 0.01)), dtype=np.uint8)
        content = np.zeros(low.shape, np.uint8)
        for segment, query in zip(segments, queries, strict=True):
            if query.category == "cube":
                content |= segment.mask.view(np.uint8)
        low[cv2.dilate(content, np.ones((5, 5), np.uint8)) > 0] = 0
        near = window(low)
        around = _thinned(points[near][low[near] > 0], 4000)
        found: list[DetectedObject] = []
        for segment, query in candidates:
            box = window(segment.mask)
            region = _thinned(points[box][segment.mask[box] & (low[box] > 0)], 1000)
            for _ in range(_BOWLS_PER_REGION):
                fit = find_bowl(
                    region,
                    around,
                    camera_to_base.position,
                    config.bowl_radius,
                    config.bowl_height,
                    config.bowl_wall,
                    np.random.default_rng(0),
                )
                if fit is None or not is_borne_out(fit, frame.depth, frame.intrinsics, camera_to_base):
                    break
                region, around = _outside(region, fit), _outside(around, fit)
                found.append(_bowl(fit, query.color, segment.mask))
        return [thing for thing in found if thing.confidence >= config.min_confidence]


def _bowl(fit: BowlFit, color: str, mask: NDArray[np.bool_]) -> DetectedObject:
    center = np.array([*fit.center, (fit.foot + fit.rim) / 2])
    size = (2 * fit.radius, 2 * fit.radius, fit.rim - fit.foot)
    confidence = float(np.clip((0.3 + 0.9 * fit.coverage) * (1.2 - fit.rms / 0.01), 0, 1))
    return _detected("bowl", color, confidence, center, 0.0, size, mask)


def _outside(points: NDArray[np.float64], fit: BowlFit) -> NDArray[np.float64]:
    return np.asarray(points[np.linalg.norm(points[:, :2] - fit.center, axis=1) > fit.radius + 0.01])


def _thinned(points: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    return np.asarray(points[:: max(1, len(points) // count)], dtype=float)


def _detected(
    category: str,
    color: str,
    confidence: float,
    center: NDArray[np.float64],
    yaw: float,
    size: tuple[float, ...],
    mask: NDArray[np.bool_],
) -> DetectedObject:
    rows, cols = window(mask)
    pose = Pose(center, np.array([0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)]))
    box = (rows.start, cols.start, rows.stop, cols.stop)
    return DetectedObject("", category, color, confidence, pose, np.array(size, dtype=float), box, int(np.count_nonzero(mask)))


def _generic(segment: Segment, points: NDArray[np.float32], name: str) -> DetectedObject | None:
    """An object of no known shape: its middle and horizontal extents from its points."""
    known = known_points(points, segment.mask).astype(float)
    if len(known) < 30:
        return None
    low, high = np.percentile(known, (3, 97), axis=0)
    (_, _), (length, width), angle = cv2.minAreaRect(known[:, :2].astype(np.float32))
    center = np.array([*np.median(known[:, :2], axis=0), (low[2] + high[2]) / 2])
    yaw = math.remainder(math.radians(angle), math.pi)
    return _detected(name, "", segment.score, center, yaw, (length, width, float(high[2] - low[2])), segment.mask)
