"""Regions by colour and height above the table: the Segmenter that needs no model.

Coloured things are found by hue, so the robot (white, grey, black) and the table's brightness do not matter; a table of an object's
colour is told apart by height. Colourless things are found by height alone, where they form a low region of their own.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vlatools.perception.config import PerceptionConfig
from vlatools.perception.naming import parse, pick_side
from vlatools.perception.ports import Segment
from vlatools.perception.regions import inner, known_points, spread, window

# A hue that covers this much of the visible table is the table's own.
_TABLE_SHARE = 0.02
# Score of a region whose outline was seen in colour; below it the outline is only that of noisy depth.
SHARP_SCORE = 0.9
_SPLIT_GAP_M = 0.055
_MIN_LOW_PIXELS = 300
_CLOSE_PX = 7
_WIDEST_CUBE_M = 0.085


class ColorSegmenter:
    """Implements :class:`~vlatools.perception.ports.Segmenter`. Stateless."""

    def __init__(self, config: PerceptionConfig | None = None) -> None:
        self.config = config or PerceptionConfig()
        self._names = tuple(color.name for color in self.config.colors)
        self._lut = np.zeros(256, np.uint8)
        for index, color in enumerate(self.config.colors, start=1):
            hues = np.arange(180) * 2
            wraps = color.hue_min > color.hue_max
            low, high = hues >= color.hue_min, hues <= color.hue_max
            self._lut[:180][(low | high) if wraps else (low & high)] = index

    def segment(self, color: NDArray[np.uint8], points: NDArray[np.float32], prompt: str) -> list[Segment]:
        """Regions for a prompt, best (largest) first; see the port. Unknown words give an empty list."""
        query = parse(prompt, self._names)
        if not query.known:
            return []
        labels = self._hues(color)
        soft = self._table_hues(labels, points)
        labels = self._raised(labels, points, soft)
        found = self._color_regions(labels, points, query.color, soft)
        if not query.color:
            found += self._low_regions(labels, points)
        found = [s for s in found if query.category in s.label]
        if query.side:
            index = pick_side(query.side, [float(np.nanmedian(points[s.mask][:, 1])) for s in found])
            found = [] if index is None else [found[index]]
        return sorted(found, key=lambda s: (-s.score, -int(s.mask.sum())))

    def segment_point(self, color: NDArray[np.uint8], points: NDArray[np.float32], row: int, col: int) -> Segment | None:
        """The region that a pixel belongs to: an object's, else the connected area of alike colour; None off the image."""
        rows, cols = color.shape[:2]
        if not (0 <= row < rows and 0 <= col < cols):
            return None
        for segment in self.segment(color, points, ""):
            if segment.mask[row, col]:
                return segment
        lab = cv2.cvtColor(color, cv2.COLOR_RGB2LAB)
        flood = np.zeros((rows + 2, cols + 2), np.uint8)
        flags = 4 | (255 << 8) | cv2.FLOODFILL_MASK_ONLY | cv2.FLOODFILL_FIXED_RANGE
        cv2.floodFill(lab, flood, (int(col), int(row)), 0, (40, 14, 14), (40, 14, 14), flags)
        return Segment("region", 0.5, flood[1:-1, 1:-1] > 0)

    def _hues(self, color: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Colour of every pixel, uint8 (H, W): 0 none, i + 1 for the i-th colour."""
        hue, saturation, value = cv2.split(cv2.cvtColor(color, cv2.COLOR_RGB2HSV))
        labels = cv2.LUT(hue, self._lut)
        chroma = cv2.multiply(saturation, value, scale=1 / 255.0)
        labels[(saturation < self.config.saturation_min) | (chroma < self.config.chroma_min)] = 0
        return np.asarray(labels, dtype=np.uint8)

    def _table_hues(self, labels: NDArray[np.uint8], points: NDArray[np.float32]) -> list[int]:
        """Colours that the table itself has."""
        with np.errstate(invalid="ignore"):
            flat = np.abs(points[::4, ::4, 2]) < self.config.min_height / 2
        counts = np.bincount(labels[::4, ::4][flat], minlength=len(self._names) + 1)
        return [i for i in range(1, len(counts)) if counts[i] > _TABLE_SHARE * max(1, int(flat.sum()))]

    def _raised(self, labels: NDArray[np.uint8], points: NDArray[np.float32], hues: list[int]) -> NDArray[np.uint8]:
        """Labels without the table, where a colour is the table's too."""
        if hues:
            # Depth is noisy by some millimetres: smooth the heights before they decide where an object ends.
            smooth = cv2.medianBlur(np.nan_to_num(points[..., 2], nan=1.0), 5)
            labels[np.isin(labels, hues) & (smooth < self.config.min_height / 2)] = 0
        return labels

    def _color_regions(self, labels: NDArray[np.uint8], points: NDArray[np.float32], only: str, soft: list[int]) -> list[Segment]:
        """Connected regions of one colour that stand on the table, labelled ``<color> cube`` or, if wide, ``<color> bowl``;
        pieces that an occluder splits are joined."""
        counts = np.bincount(labels.ravel(), minlength=len(self._names) + 1)
        found = []
        for index, name in enumerate(self._names, start=1):
            if counts[index] < self.config.min_pixels or (only and name != only):
                continue
            for region in _join(self._components((labels == index).view(np.uint8), points), points):
                category = "cube" if spread(known_points(points, inner(region))) < _WIDEST_CUBE_M else "bowl"
                score = SHARP_SCORE if index not in soft else SHARP_SCORE - 0.2
                found.append(Segment(f"{name} {category}", score, region))
        return found

    def _components(self, mask: NDArray[np.uint8], points: NDArray[np.float32]) -> list[NDArray[np.bool_]]:
        box = window(mask)
        _, marks, stats, _ = cv2.connectedComponentsWithStats(mask[box], connectivity=8)
        found = []
        for mark in np.argsort(-stats[1:, cv2.CC_STAT_AREA]) + 1:
            if stats[mark, cv2.CC_STAT_AREA] < self.config.min_pixels // 2:
                break
            part = marks == mark
            known = known_points(points[box], part)
            # The upper quarter decides: of a half-hidden object the part that is seen may be the foot.
            if len(known) < 10 or np.percentile(known[:, 2], 75) < self.config.min_height:
                continue
            if self._inside(np.median(known, axis=0)):
                region = np.zeros(mask.shape, bool)
                region[box] = part
                found.append(region)
        return found

    def _inside(self, point: NDArray[np.float32]) -> bool:
        limits = (self.config.workspace_x, self.config.workspace_y, self.config.workspace_z)
        return all(low <= value <= high for value, (low, high) in zip(point, limits, strict=True))

    def _low_mask(self, labels: NDArray[np.uint8], points: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Pixels, 255, of colourless things up to a bowl's height, in the workspace."""
        (x0, x1), (y0, y1) = self.config.workspace_x, self.config.workspace_y
        low = cv2.inRange(points, (x0, y0, self.config.min_height), (x1, y1, self.config.bowl_height[1] + 0.01))
        low[labels > 0] = 0
        return np.asarray(low, dtype=np.uint8)

    def _low_regions(self, labels: NDArray[np.uint8], points: NDArray[np.float32]) -> list[Segment]:
        """Connected colourless regions on the table, labelled ``bowl`` when wide enough; filled inside."""
        low: Any = self._low_mask(labels, points)
        # Depth is missing along edges, and a bowl's front wall is thin.
        low = cv2.morphologyEx(low, cv2.MORPH_CLOSE, np.ones((_CLOSE_PX, _CLOSE_PX), np.uint8))
        outlines, _ = cv2.findContours(low, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        found = []
        for outline in outlines:
            if cv2.contourArea(outline) < _MIN_LOW_PIXELS:
                continue
            mask = np.zeros(low.shape, np.uint8)
            cv2.drawContours(mask, [outline], -1, 1, cv2.FILLED)
            region = mask.view(bool)
            if spread(known_points(points, region & (low > 0))) >= 2 * self.config.bowl_radius[0] * 0.8:
                found.append(Segment("bowl", 0.6, region))
        return found


def _join(regions: list[NDArray[np.bool_]], points: NDArray[np.float32]) -> list[NDArray[np.bool_]]:
    """Join regions whose middles are nearer than an object is wide: pieces of one object behind a finger."""
    groups: list[tuple[NDArray[np.float32], NDArray[np.bool_]]] = []
    for region in regions:
        middle = np.median(known_points(points, region), axis=0)
        for i, (other, joined) in enumerate(groups):
            both = joined | region
            if np.linalg.norm(middle - other) < _SPLIT_GAP_M * 0.8 and spread(known_points(points, both)) < _SPLIT_GAP_M:
                groups[i] = (other, both)
                break
        else:
            groups.append((middle, region))
    return [region for _, region in groups]
