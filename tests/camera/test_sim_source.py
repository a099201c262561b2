"""The simulated camera and a recording made of it, through the same code as a device."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from vlatools.camera.realsense import CameraConfig, RealSenseCamera
from vlatools.camera.source import CameraLost, DeviceSource, FileSource, StreamProfile
from vlatools.core import MonotonicClock, StaleData
from vlatools.sim.d435 import SERIAL, Picture, SimSource, SoftwareCamera, d435_intrinsics

CLOCK = MonotonicClock()
SMALL = d435_intrinsics(320, 240)


class Plain:
    """Draws a box above a table; the colour counts the pictures."""

    def __init__(self) -> None:
        self.count = 0
        self.silent = False
        self.closed = False

    def render(self) -> Picture | None:
        if self.silent:
            return None
        self.count += 1
        color = np.zeros((SMALL.height, SMALL.width, 3), np.uint8)
        color[..., 0], color[..., 2] = 200, self.count % 256
        depth = np.full((SMALL.height, SMALL.width), 0.9, np.float32)
        depth[100:140, 140:180] = 0.86
        return Picture(CLOCK.now(), color, depth)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def drawn() -> Plain:
    return Plain()


@pytest.fixture
def camera(drawn: Plain):
    cam = RealSenseCamera(SimSource(lambda: drawn, CLOCK, 30, intrinsics=SMALL), CLOCK, CameraConfig(streams=StreamProfile(fps=30)))
    cam.start()
    yield cam
    cam.stop()


def test_frames_are_aligned_fresh_and_in_metres(camera: RealSenseCamera) -> None:
    frame = camera.wait_after(0.0, 20.0)
    assert frame.color.shape == (240, 320, 3)
    assert frame.color[5, 5, 0] == 200
    assert frame.depth.shape == (240, 320)
    assert np.nanmedian(frame.depth[200:]) == pytest.approx(0.9, abs=0.002)
    assert np.nanmedian(frame.depth[110:130, 150:170]) == pytest.approx(0.86, abs=0.003)
    assert 0.0 <= CLOCK.now() - frame.stamp_s < 2.0
    assert frame.intrinsics.fx == pytest.approx(SMALL.fx, rel=1e-5)
    assert camera.serial == SERIAL


def test_the_camera_opens_again_after_it_was_closed(camera: RealSenseCamera) -> None:
    before = camera.wait_after(0.0, 20.0)
    camera.stop()
    camera.start()
    after = camera.wait_after(CLOCK.now(), 20.0)
    assert after.number > before.number


def test_a_restart_keeps_the_renderer(drawn: Plain) -> None:
    made = []
    source = SimSource(lambda: made.append(1) or drawn, CLOCK, 30, intrinsics=SMALL)
    for _ in range(3):
        source.start()
        assert source.wait(20.0).size() == 2
        source.stop()
    assert len(made) == 1
    source.close()
    assert drawn.closed


def test_a_simulation_that_stops_makes_the_camera_stale_and_it_comes_back(camera: RealSenseCamera, drawn: Plain) -> None:
    camera.wait_after(0.0, 20.0)
    drawn.silent = True
    time.sleep(0.5)
    with pytest.raises(StaleData):
        camera.latest(0.1)
    drawn.silent = False
    camera.wait_after(CLOCK.now(), 20.0)


def test_a_renderer_that_fails_names_its_reason() -> None:
    def broken() -> Plain:
        raise RuntimeError("no EGL display")

    source = SimSource(broken, CLOCK, intrinsics=SMALL)
    source.start()
    try:
        with pytest.raises(CameraLost, match="no EGL display"):
            source.wait(0.3)
    finally:
        source.close()


def test_a_recording_gives_the_same_metres_and_serial(tmp_path: Path) -> None:
    path = tmp_path / "table.db3"
    soft = SoftwareCamera(SMALL, 30, record_to=str(path))
    color = np.full((240, 320, 3), 90, np.uint8)
    counts = np.full((240, 320), 750, np.uint16)
    for number in range(1, 41):
        soft.push(color, counts, number, 1.6e12 + number * 1000 / 30)
        time.sleep(0.01)
    soft.close()
    del soft
    cam = RealSenseCamera(FileSource(path, repeat=True), CLOCK, CameraConfig(streams=StreamProfile(fps=30)))
    cam.start()
    try:
        frame = cam.wait_after(0.0, 20.0)
        assert np.nanmedian(frame.depth) == pytest.approx(0.75, abs=1e-4)
        assert frame.color[0, 0].tolist() == [90, 90, 90]
        assert cam.serial == SERIAL
        assert CLOCK.now() - frame.stamp_s < 2.0
    finally:
        cam.stop()


def test_a_missing_device_or_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CameraLost, match="Cameras on the bus: none"):
        DeviceSource("999999999999", StreamProfile()).start()
    with pytest.raises(CameraLost, match=r"none\.db3 does not exist"):
        FileSource(tmp_path / "none.db3").start()
