"""The simulated camera stands and sees as its calibration file and its intrinsics say."""

from pathlib import Path

import numpy as np
import pytest

from vlatools.camera.calibration import load
from vlatools.sim import mjcf
from vlatools.sim.d435 import d435_intrinsics
from vlatools.sim.scene import load_scene, sample

SIM = Path(__file__).parents[2] / "calibration" / "sim_d435.yaml"


@pytest.mark.parametrize("scene", ["simple", "conditioned", "long"])
def test_the_scenes_put_the_camera_where_the_calibration_says(scene: str) -> None:
    calibrated, placed = load(SIM).camera_to_base, sample(load_scene(scene), 3).camera_to_base
    assert calibrated.distance_to(placed) < 1e-9
    assert calibrated.angle_to(placed) < 1e-7


def test_the_renderers_pinhole_is_the_devices() -> None:
    assert np.allclose(d435_intrinsics().matrix, mjcf.camera_intrinsics().matrix)
