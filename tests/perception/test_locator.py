"""What the locator must find, to what accuracy, and what it must never report."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.perception.raycast import (
    BLUE,
    CAMERA,
    DARK,
    GREY,
    RED,
    WHITE,
    YELLOW,
    Box,
    Picture,
    bowl,
    cube,
    upright,
)
from vlatools.camera.points import project
from vlatools.core.pose import quat_multiply, quat_to_matrix
from vlatools.perception.locator import Locator
from vlatools.perception.ports import DetectedObject, Scene

LOCATOR = Locator()


def locate(*boxes: Box, names: list[str] | None = None, **picture: object) -> Scene:
    return LOCATOR.locate(Picture(list(boxes), **picture).frame(), CAMERA, names)  # type: ignore[arg-type]


def names_of(scene: Scene) -> list[str]:
    return [thing.name for thing in scene.objects]


def yaw_of(thing: DetectedObject) -> float:
    return 2 * math.atan2(thing.pose.quat_xyzw[2], thing.pose.quat_xyzw[3])


def check(scene: Scene, name: str, center: object, limit_m: float = 0.005) -> DetectedObject:
    thing = scene.find(name)
    assert thing is not None, f"{name} was not found, only {names_of(scene)}"
    assert np.linalg.norm(thing.pose.position - np.asarray(center)) < limit_m
    return thing


def test_cubes_and_bowls_of_random_scenes_are_found_exactly() -> None:
    rng = np.random.default_rng(7)
    errors = []
    for seed in range(12):
        spots = [(rng.uniform(0.38, 0.48), y + rng.uniform(-0.03, 0.03)) for y in (0.15, 0.0, -0.15)]
        sizes, yaws = rng.uniform(0.03, 0.05, 3), rng.uniform(-math.pi, math.pi, 3)
        left, right = (rng.uniform(0.58, 0.66), 0.13), (rng.uniform(0.58, 0.66), -0.12)
        boxes = [cube(*s, c, yaw, size) for s, c, yaw, size in zip(spots, (RED, BLUE, YELLOW), yaws, sizes, strict=True)]
        scene = locate(*boxes, *bowl(*left), *bowl(*right), seed=seed)
        assert names_of(scene) == ["blue cube", "left bowl", "red cube", "right bowl", "yellow cube"]
        for name, box, yaw, size in zip(("red cube", "blue cube", "yellow cube"), boxes, yaws, sizes, strict=True):
            thing = check(scene, name, box.center, 0.006)
            errors.append(np.linalg.norm(thing.pose.position - box.center))
            assert abs(math.remainder(yaw_of(thing) - yaw, math.pi / 2)) < math.radians(6)
            assert -math.pi / 4 <= yaw_of(thing) <= math.pi / 4
            assert thing.size[0] == pytest.approx(size, abs=0.003)
        for name, spot in (("left bowl", left), ("right bowl", right)):
            thing = check(scene, name, (*spot, 0.0225), 0.004)
            errors.append(np.linalg.norm(thing.pose.position - [*spot, 0.0225]))
            assert thing.size[0] / 2 == pytest.approx(0.066, abs=0.003)
            assert thing.top == pytest.approx(0.045, abs=0.004)
    assert np.median(errors) < 0.002


def test_the_box_of_a_detection_holds_its_centre() -> None:
    scene = locate(cube(0.45, 0.1, RED), *bowl(0.62, -0.1))
    frame = Picture().frame()
    for thing in scene.objects:
        row, col = project([thing.pose.position], frame.intrinsics, CAMERA)[0]
        row0, col0, row1, col1 = thing.box
        assert row0 < row < row1
        assert col0 < col < col1
        assert thing.pixels > 100


def test_a_stack_is_two_cubes_at_their_heights() -> None:
    scene = locate(cube(0.45, 0.05, YELLOW, 0.2), cube(0.453, 0.047, RED, 0.5, z=0.04))
    assert check(scene, "yellow cube", (0.45, 0.05, 0.02)).top == pytest.approx(0.04, abs=0.004)
    check(scene, "red cube", (0.453, 0.047, 0.06))


def test_a_cube_in_a_bowl_and_the_bowl_that_holds_it() -> None:
    scene = locate(*bowl(0.61, 0.12), cube(0.605, 0.125, RED, 0.6, z=0.004))
    check(scene, "red cube", (0.605, 0.125, 0.024))
    check(scene, "bowl", (0.61, 0.12, 0.0225), 0.004)


@pytest.mark.parametrize(("lean", "towards"), [(0.35, 0.0), (0.5, 1.2), (0.6, 2.5), (0.4, -2.0)])
def test_a_cube_that_leans_on_a_bowls_wall_is_found(lean: float, towards: float) -> None:
    axis = np.array([math.cos(towards), math.sin(towards), 0.0]) * math.sin(lean / 2)
    rotation = quat_to_matrix(quat_multiply((*axis, math.cos(lean / 2)), (0, 0, math.sin(0.2), math.cos(0.2))))
    box = Box(np.array([0.605, 0.115, 0.038]), np.full(3, 0.04), rotation, YELLOW)
    scene = locate(*bowl(0.61, 0.12), box)
    check(scene, "yellow cube", box.center)
    check(scene, "bowl", (0.61, 0.12, 0.0225), 0.004)


def test_a_cube_behind_a_finger_is_one_cube_at_its_place() -> None:
    finger = upright((0.485, 0.0, 0.09), (0.012, 0.014, 0.16), DARK)
    scene = locate(cube(0.45, 0.0, BLUE, 0.1), finger)
    assert names_of(scene) == ["blue cube"]
    check(scene, "blue cube", (0.45, 0.0, 0.02))


def gripper(x: float, y: float, z: float) -> list[Box]:
    """Two fingers 4 cm apart, a hand and a forearm above the point."""
    return [
        upright((x, y + 0.028, z + 0.02), (0.02, 0.016, 0.055), DARK),
        upright((x, y - 0.028, z + 0.02), (0.02, 0.016, 0.055), DARK),
        upright((x, y, z + 0.085), (0.06, 0.20, 0.07), WHITE),
        upright((x - 0.03, y, z + 0.25), (0.10, 0.10, 0.25), GREY),
    ]


@pytest.mark.parametrize("z", [0.06, 0.12, 0.20])
def test_a_cube_in_the_gripper_is_where_it_is_held(z: float) -> None:
    scene = locate(cube(0.5, 0.03, RED, z=z - 0.02), *gripper(0.5, 0.03, z))
    assert names_of(scene) == ["red cube"]
    check(scene, "red cube", (0.5, 0.03, z), 0.006)


@pytest.mark.parametrize(("x", "y", "z"), [(0.45, 0.0, 0.03), (0.6, 0.12, 0.05), (0.55, -0.1, 0.02), (0.4, 0.1, 0.15)])
def test_the_robot_is_no_object(x: float, y: float, z: float) -> None:
    assert names_of(locate(*gripper(x, y, z))) == []


def test_a_bowl_half_hidden_by_the_gripper_is_still_that_bowl() -> None:
    scene = locate(*bowl(0.6, 0.1), *gripper(0.6, 0.13, 0.06))
    check(scene, "bowl", (0.6, 0.1, 0.0225), 0.005)


def test_a_fully_hidden_cube_is_not_reported() -> None:
    screen = upright((0.56, 0.0, 0.10), (0.01, 0.3, 0.2), WHITE)
    assert "red cube" not in names_of(locate(cube(0.47, 0.0, RED), screen))


@pytest.mark.parametrize(
    "thing",
    [
        upright((0.45, 0, 0.0005), (0.08, 0.08, 0.001), RED),  # paper
        upright((0.45, 0, 0.0015), (0.04, 0.04, 0.003), RED),  # a patch as large as a cube
        upright((0.45, 0, 0.02), (0.13, 0.04, 0.04), BLUE),  # a bar
        upright((0.45, 0, 0.06), (0.04, 0.04, 0.12), YELLOW),  # a tower
        upright((0.45, 0, 0.01), (0.04, 0.04, 0.02), RED),  # half a cube
        upright((0.45, 0, 0.04), 0.08, RED),  # twice a cube
        upright((0.45, 0, 0.01), 0.02, RED),  # a die
        upright((0.6, 0, 0.0225), (0.13, 0.13, 0.045), GREY),  # a solid block as wide as a bowl
        upright((0.6, 0, 0.03), (0.06, 0.06, 0.06), GREY),
        upright((0.05, 0.5, 0.02), 0.04, RED),  # a cube outside the workspace
    ],
    ids=["paper", "patch", "bar", "tower", "half", "big", "die", "block", "grey_box", "outside"],
)
def test_what_is_neither_cube_nor_bowl_is_not_reported(thing: Box) -> None:
    assert names_of(locate(thing)) == []


@pytest.mark.parametrize("brightness", [0.35, 0.6, 1.25])
def test_light_does_not_matter(brightness: float) -> None:
    scene = locate(cube(0.45, 0.1, RED), cube(0.44, 0, BLUE), cube(0.45, -0.1, YELLOW), brightness=brightness)
    assert names_of(scene) == ["blue cube", "red cube", "yellow cube"]


@pytest.mark.parametrize("table", [(30, 30, 32), (140, 100, 60), (25, 55, 190), (225, 190, 15), (90, 140, 90)])
def test_the_tables_colour_does_not_matter(table: tuple[int, int, int]) -> None:
    boxes = (cube(0.45, 0.1, RED), cube(0.44, 0, BLUE, 0.4), cube(0.45, -0.1, YELLOW), *bowl(0.62, 0.1))
    scene = locate(*boxes, table=table)
    assert names_of(scene) == ["blue cube", "bowl", "red cube", "yellow cube"]
    check(scene, "blue cube", (0.44, 0.0, 0.02), 0.008)
    check(scene, "bowl", (0.62, 0.1, 0.0225), 0.005)


def test_equal_things_are_told_apart_as_left_and_right() -> None:
    scene = locate(cube(0.45, 0.1, RED), cube(0.45, -0.1, RED), *bowl(0.6, 0.15), *bowl(0.6, 0.0), *bowl(0.6, -0.15))
    assert names_of(scene) == ["left bowl", "left red cube", "middle bowl", "right bowl", "right red cube"]
    left, right = scene.find("left bowl"), scene.find("right bowl")
    assert left is not None
    assert right is not None
    assert left.pose.position[1] > right.pose.position[1]


def test_only_what_was_asked_for_is_reported_under_the_name_asked_for() -> None:
    boxes = (cube(0.45, 0.1, RED), *bowl(0.6, 0.15), *bowl(0.6, -0.15))
    assert names_of(locate(*boxes, names=["left bowl"])) == ["left bowl"]
    assert names_of(locate(*boxes, names=["the red block", "green cube"])) == ["the red block"]
    assert names_of(locate(*boxes, names=["bowl"])) == []  # which one?


def test_a_lone_bowl_answers_to_its_side() -> None:
    assert names_of(locate(*bowl(0.6, 0.12))) == ["bowl"]
    assert names_of(locate(*bowl(0.6, 0.12), names=["left bowl"])) == ["left bowl"]
    assert names_of(locate(*bowl(0.6, 0.12), names=["right bowl"])) == []


def test_no_depth_no_objects() -> None:
    frame = Picture([cube(0.45, 0.1, RED), *bowl(0.6, 0.1)]).frame()
    frame.depth[:] = np.nan
    assert LOCATOR.locate(frame, CAMERA).objects == ()


def test_the_same_picture_gives_the_same_answer() -> None:
    frame = Picture([cube(0.45, 0.1, RED), *bowl(0.6, 0.1)]).frame()
    one, two = LOCATOR.locate(frame, CAMERA), LOCATOR.locate(frame, CAMERA)
    assert [t.pose for t in one.objects] == [t.pose for t in two.objects]
