"""Regions by prompt and by pixel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.perception.raycast import BLUE, CAMERA, INTRINSICS, RED, YELLOW, Picture, bowl, cube
from vlatools.camera.points import point_map, project
from vlatools.core import ConfigError
from vlatools.perception.color_segmenter import ColorSegmenter
from vlatools.perception.config import ColorRange, PerceptionConfig
from vlatools.perception.naming import Query, parse, pick_side

SEGMENTER = ColorSegmenter()
FRAME = Picture([cube(0.45, 0.1, RED), cube(0.44, 0.0, BLUE), cube(0.45, -0.1, YELLOW), *bowl(0.61, 0.1), *bowl(0.6, -0.12)]).frame()
POINTS = point_map(FRAME.depth, INTRINSICS, CAMERA)


def pixel(x: float, y: float, z: float) -> tuple[int, int]:
    row, col = np.rint(project([[x, y, z]], INTRINSICS, CAMERA)[0]).astype(int)
    return int(row), int(col)


@pytest.mark.parametrize(
    ("prompt", "labels"),
    [
        ("red cube", ["red cube"]),
        ("the blue block", ["blue cube"]),
        ("yellow", ["yellow cube"]),
        ("cube", ["blue cube", "red cube", "yellow cube"]),
        ("bowl", ["bowl", "bowl"]),
        ("left bowl", ["bowl"]),
        ("", ["blue cube", "bowl", "bowl", "red cube", "yellow cube"]),
        ("green cube", []),
        ("red bowl", []),
        ("screwdriver", []),
    ],
)
def test_prompts(prompt: str, labels: list[str]) -> None:
    assert sorted(s.label for s in SEGMENTER.segment(FRAME.color, POINTS, prompt)) == labels


def test_the_left_bowl_is_the_one_at_larger_y() -> None:
    (segment,) = SEGMENTER.segment(FRAME.color, POINTS, "left bowl")
    assert segment.mask[pixel(0.61, 0.1, 0.004)]
    assert not segment.mask[pixel(0.6, -0.12, 0.004)]


def test_a_mask_covers_the_cube_and_only_it() -> None:
    (segment,) = SEGMENTER.segment(FRAME.color, POINTS, "red cube")
    assert segment.mask[pixel(0.45, 0.1, 0.04)]
    inside = POINTS[segment.mask]
    inside = inside[np.isfinite(inside[:, 2])]
    assert np.all(np.linalg.norm(np.percentile(inside, (5, 95), axis=0)[:, :2] - [0.45, 0.1], axis=1) < 0.04)


def test_a_pixel_names_the_object_it_lies_on() -> None:
    segment = SEGMENTER.segment_point(FRAME.color, POINTS, *pixel(0.44, 0.0, 0.04))
    assert segment is not None
    assert segment.label == "blue cube"
    table = SEGMENTER.segment_point(FRAME.color, POINTS, *pixel(0.3, 0.0, 0.0))
    assert table is not None
    assert table.label == "region"
    assert table.mask.sum() > 50_000
    assert not table.mask[pixel(0.44, 0.0, 0.04)]
    assert SEGMENTER.segment_point(FRAME.color, POINTS, 480, 0) is None
    assert SEGMENTER.segment_point(FRAME.color, POINTS, -1, 0) is None


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        ("the left red cube", Query("left", "red", "cube")),
        ("Blue block", Query("", "blue", "cube")),
        ("right_bowl", Query("right", "", "bowl")),
        ("red mug", Query("", "red", "mug")),
        ("", Query("", "", "")),
    ],
)
def test_parse(prompt: str, query: Query) -> None:
    assert parse(prompt, ("red", "blue")) == query


def test_pick_side() -> None:
    assert pick_side("left", [-0.1, 0.2, 0.0]) == 1
    assert pick_side("middle", [-0.1, 0.2, 0.0]) == 2
    assert pick_side("right", [-0.1, 0.2]) == 0
    assert pick_side("middle", [-0.1, 0.2]) is None
    assert pick_side("left", []) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"saturation_min": 5}, "saturation_min is 5"),
        ({"cube_size": (0.05, 0.03)}, "cube_size"),
        ({"colors": ()}, "colors"),
        ({"colors": (ColorRange("red", 0, 10), ColorRange("red", 20, 30))}, "each name once"),
        ({"min_confidence": 1.5}, "min_confidence is 1.5"),
    ],
)
def test_wrong_configuration_is_named(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        PerceptionConfig(**changes)  # type: ignore[arg-type]


def test_a_hue_outside_the_circle_is_refused() -> None:
    with pytest.raises(ConfigError, match="hue_max 400"):
        ColorRange("red", 0, 400)
