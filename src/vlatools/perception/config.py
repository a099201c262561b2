"""What perception knows beforehand: colours, the part of the table to look at, sizes of cubes and bowls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vlatools.core import ConfigError


def _check_range(key: str, limits: tuple[float, float], low: float, high: float) -> None:
    if not low <= limits[0] < limits[1] <= high:
        raise ConfigError(f"{key} is {list(limits)}, it must be [low, high] with {low} <= low < high <= {high}")


@dataclass(frozen=True)
class ColorRange:
    """A named colour by its hue in degrees, 0 to 360; ``hue_min`` above ``hue_max`` wraps through red."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: str
    hue_min: float
    hue_max: float

    def __post_init__(self) -> None:
        for key in ("hue_min", "hue_max"):
            value = getattr(self, key)
            if not 0 <= value <= 360:
                raise ConfigError(f"colors: {self.name!r} has {key} {value}, the limits are 0 and 360 degrees")


@dataclass(frozen=True)
class PerceptionConfig:
    """Parameters of the colour segmenter and the locator; lengths in metres, fr3_link0.

    Attributes:
        colors: named hues; they must not overlap. What has none of them is achromatic ("" in a detection).
        saturation_min: 0 to 255; below it a pixel has no colour.
        chroma_min: 0 to 255, largest minus smallest of r, g, b; keeps dark noise from having a colour.
        workspace_x, workspace_y, workspace_z: objects are looked for only here.
        min_height: what is lower above the table is paint or noise.
        min_pixels: smallest colour region that is looked at.
        cube_size: smallest and largest edge of a cube.
        bowl_radius: smallest and largest outer radius of a bowl's rim.
        bowl_height: smallest and largest height of a bowl's rim above the table.
        bowl_wall: wall thickness of a bowl.
        min_confidence: detections below it are not reported.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    colors: tuple[ColorRange, ...] = (
        ColorRange("red", 342, 16),
        ColorRange("orange", 18, 36),
        ColorRange("yellow", 38, 72),
        ColorRange("green", 76, 170),
        ColorRange("blue", 190, 262),
        ColorRange("purple", 264, 325),
    )
    saturation_min: int = 90
    chroma_min: int = 26
    workspace_x: tuple[float, float] = (0.20, 0.85)
    workspace_y: tuple[float, float] = (-0.45, 0.45)
    workspace_z: tuple[float, float] = (-0.02, 0.60)
    min_height: float = 0.012
    min_pixels: int = 70
    cube_size: tuple[float, float] = (0.027, 0.054)
    bowl_radius: tuple[float, float] = (0.045, 0.095)
    bowl_height: tuple[float, float] = (0.025, 0.085)
    bowl_wall: float = 0.004
    min_confidence: float = 0.3

    def __post_init__(self) -> None:
        names = tuple(color.name for color in self.colors)
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"colors are {list(names)}: give at least one, each name once")
        _check_range("workspace_x", self.workspace_x, -1.0, 1.5)
        _check_range("workspace_y", self.workspace_y, -1.5, 1.5)
        _check_range("workspace_z", self.workspace_z, -0.1, 2.0)
        _check_range("cube_size", self.cube_size, 0.01, 0.15)
        _check_range("bowl_radius", self.bowl_radius, 0.02, 0.3)
        _check_range("bowl_height", self.bowl_height, 0.01, 0.3)
        for key, low, high in (
            ("saturation_min", 20, 250),
            ("chroma_min", 5, 200),
            ("min_height", 0.004, 0.03),
            ("min_pixels", 20, 5000),
            ("bowl_wall", 0.0, 0.02),
            ("min_confidence", 0.0, 1.0),
        ):
            value = getattr(self, key)
            if not low <= value <= high:
                raise ConfigError(f"{key} is {value}, the limits are {low} and {high}")
