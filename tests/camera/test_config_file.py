"""The shipped configuration says what the defaults say, so that neither drifts."""

from pathlib import Path

import pytest

from vlatools import config
from vlatools.camera.realsense import CameraConfig
from vlatools.camera.source import StreamProfile
from vlatools.core import ConfigError
from vlatools.perception.config import PerceptionConfig

FOLDER = Path(__file__).parents[2] / "config"


def test_camera() -> None:
    assert config.load(CameraConfig, FOLDER / "camera.yaml") == CameraConfig()


def test_perception() -> None:
    assert config.load(PerceptionConfig, FOLDER / "perception.yaml") == PerceptionConfig()


def test_a_wrong_rate_is_named_with_what_is_possible() -> None:
    with pytest.raises(ConfigError, match="fps is 25, a D435 gives 6, 15, 30 or 60"):
        StreamProfile(fps=25)
    with pytest.raises(ConfigError, match=r"backoff_max_s is 0\.1"):
        CameraConfig(backoff_s=0.5, backoff_max_s=0.1)
