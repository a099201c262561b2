"""Ports of the perception floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vlatools.core import Pose


@dataclass(frozen=True)
class Segment:
    """An image region that a prompt names.

    Attributes:
        label: what it is, e.g. ``red cube``.
        score: 0 to 1.
        mask: bool (H, W).
    """

    label: str
    score: float
    mask: NDArray[np.bool_]


class Segmenter(Protocol):
    """Finds regions. Colour and geometry now; an open-vocabulary model implements the same port."""

    def segment(self, color: NDArray[np.uint8], points: NDArray[np.float32], prompt: str) -> list[Segment]:
        """Regions for a prompt such as ``red cube`` or ``bowl``; "" means every object. Best first; empty if none.

        Args:
            color: uint8 (H, W, 3) RGB.
            points: float32 (H, W, 3) in fr3_link0, NaN where unknown.
            prompt: object name.
        """
        ...


@dataclass(frozen=True)
class DetectedObject:
    """An object on the table.

    Attributes:
        name: unique in the scene: colour and category ("red cube"), with left/right for equal ones ("left bowl").
        category: ``cube``, ``bowl`` or the prompt.
        color: ``red``, ``yellow``, ``blue``, ``white`` ... or "".
        confidence: 0 to 1.
        pose: centre in fr3_link0 (metres); yaw about the vertical, in (-pi/4, pi/4] for a cube.
        size: extents (3,) along the object's own axes, metres.
        box: row0, col0, row1, col1 in pixels (end exclusive).
        pixels: mask area.
    """

    name: str
    category: str
    color: str
    confidence: float
    pose: Pose
    size: NDArray[np.float64]
    box: tuple[int, int, int, int]
    pixels: int

    @property
    def top(self) -> float:
        """Height of the object's top in fr3_link0, metres."""
        return float(self.pose.position[2] + self.size[2] / 2)


@dataclass(frozen=True)
class Scene:
    """Everything that was seen at one instant.

    Attributes:
        stamp_s: monotonic time of the image.
        objects: sorted by name. Left and right are the operator's view from the robot's base: left is +y in fr3_link0.
    """

    stamp_s: float
    objects: tuple[DetectedObject, ...]

    def find(self, name: str) -> DetectedObject | None:
        """The object of that exact name, or None."""
        return next((o for o in self.objects if o.name == name), None)
