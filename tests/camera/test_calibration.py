"""The calibration loader lets nothing pass that cannot be a camera looking at the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vlatools.camera import calibration
from vlatools.camera.calibration import Calibration, Provenance, create, fingerprint, load, save
from vlatools.camera.points import back_project, point_map, project
from vlatools.core import ConfigError, Pose
from vlatools.sim.d435 import SERIAL, d435_intrinsics

FOLDER = Path(__file__).parents[2] / "calibration"
SIM = FOLDER / "sim_d435.yaml"


def changed(tmp_path: Path, sign: bool = True, **changes: Any) -> Path:
    """The simulated camera's file with changes (``provenance__key`` reaches inside), under a hash that fits."""
    content = yaml.safe_load(SIM.read_text())
    for key, value in changes.items():
        where, *inner = key.split("__")
        if inner:
            content[where][inner[0]] = value
        elif value is None:
            del content[where]
        else:
            content[where] = value
    if sign and isinstance(content.get("provenance"), dict):
        try:
            source = Provenance(**content["provenance"])
            content["hash"] = fingerprint(content["position"], content["quat_xyzw"], source)
        except (ConfigError, TypeError):
            pass
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("name", ["sim_d435.yaml", "example_lab.yaml"])
def test_the_shipped_files_load(name: str) -> None:
    assert load(FOLDER / name).camera_to_base.position[2] > 0.5


def test_the_simulated_file_belongs_to_the_simulated_camera() -> None:
    assert load(SIM, SERIAL).provenance.camera_serial == SERIAL


def test_it_survives_writing_and_reading(tmp_path: Path) -> None:
    loaded = load(SIM)
    save(loaded, tmp_path / "again.yaml")
    assert load(tmp_path / "again.yaml") == loaded


INVERSE = load(SIM).camera_to_base.inverse()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"quat_xyzw": [0.5, 0.5, 0.5, 0.1]}, "norm"),
        ({"quat_xyzw": [0.0, 0.0, 0.0, 1.0]}, "optical axis"),
        ({"position": [1.1, 0.0, -0.7]}, "height"),
        ({"position": [1100.0, 0.0, 700.0]}, "3.0 m"),
        ({"position": [3.4, 0.0, 3.4]}, "3.0 m"),
        ({"position": INVERSE.position.tolist(), "quat_xyzw": INVERSE.quat_xyzw.tolist()}, "inverted"),
        ({"position": [float("nan"), 0.0, 0.7]}, "position"),
        ({"position": [1.1, 0.0]}, "position"),
        ({"provenance": None}, "provenance"),
        ({"provenance__date": "yesterday"}, "ISO date"),
        ({"provenance__camera_serial": " "}, "camera_serial"),
        ({"provenance__residual_mm": 45.0}, "calibrate again"),
        ({"provenance__residual_mm": float("nan")}, "residual_mm"),
        ({"provenance__samples": -1}, "samples"),
        ({"child_frame": "camera_link"}, "camera_color_optical_frame"),
        ({"parent_frame": "panda_link0"}, "fr3_link0"),
        ({"format": "something-else"}, "vlatools-hand-eye-1"),
        ({"colour": "black"}, "colour"),
    ],
)
def test_nonsense_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = changed(tmp_path, **changes)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert words in str(caught.value)
    assert "changed.yaml" in str(caught.value)


def test_the_serial_must_be_that_of_the_camera_in_use() -> None:
    with pytest.raises(ConfigError, match="'123456789012'"):
        load(SIM, "123456789012")


def test_a_file_edited_by_hand_is_noticed(tmp_path: Path) -> None:
    path = changed(tmp_path, sign=False, position=[1.1, 0.01, 0.7])
    with pytest.raises(ConfigError, match="was changed"):
        load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        load(tmp_path / "nowhere.yaml")


@settings(max_examples=50, deadline=None)
@given(st.floats(0.4, 1.2), st.floats(-0.5, 0.5), st.floats(0.4, 1.2))
def test_pixels_and_points_are_inverse(row: float, col: float, depth: float) -> None:
    intrinsics, pose = d435_intrinsics(), load(SIM).camera_to_base
    point = back_project(row * 200, col * 200 + 300, depth, intrinsics, pose)
    assert project([point], intrinsics, pose)[0] == pytest.approx([row * 200, col * 200 + 300], abs=1e-6)


def test_the_point_map_agrees_with_single_pixels_and_keeps_unknown_unknown() -> None:
    intrinsics, pose = d435_intrinsics(), load(SIM).camera_to_base
    depth = np.full((480, 640), 0.9, np.float32)
    depth[7, 9] = np.nan
    points = point_map(depth, intrinsics, pose)
    assert points.dtype == np.float32
    assert points.shape == (480, 640, 3)
    assert np.isnan(points[7, 9]).all()
    assert points[100, 200] == pytest.approx(back_project(100, 200, 0.9, intrinsics, pose), abs=1e-5)
    assert np.array_equal(point_map(depth, intrinsics, pose, step=4), points[::4, ::4], equal_nan=True)
    with pytest.raises(ValueError, match="same stream"):
        point_map(depth[:240], intrinsics, pose)


def test_the_camera_looks_at_the_table_where_it_says() -> None:
    intrinsics, pose = d435_intrinsics(), load(SIM).camera_to_base
    distance = float(np.linalg.norm(pose.position - [0.5, 0.0, 0.02]))
    middle = back_project(intrinsics.cy, intrinsics.cx, distance, intrinsics, pose)
    assert middle == pytest.approx([0.5, 0.0, 0.02], abs=1e-6)
    left, right = project([[0.5, 0.1, 0.0], [0.5, -0.1, 0.0]], intrinsics, pose)
    assert left[1] > right[1]  # it stands opposite the robot: the robot's left is on the image's right


def test_limits_are_just_so() -> None:
    source = load(SIM).provenance
    pose = load(SIM).camera_to_base
    low = Pose(np.array([1.1, 0.0, calibration.MIN_HEIGHT_M - 0.001]), pose.quat_xyzw)
    with pytest.raises(ConfigError, match="height"):
        create(low, source)
    assert isinstance(create(pose, source), Calibration)
