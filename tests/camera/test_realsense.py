"""The capture loop against the faults that users of RealSense cameras met (C56 to C65)."""

from __future__ import annotations

import numpy as np
import pyrealsense2 as rs
import pytest

from tests.camera.fakes import AlignedCamera, FakeFrames, ScriptedSource
from vlatools.camera.realsense import CameraConfig
from vlatools.camera.source import NoFrame
from vlatools.core import ManualClock, StaleData

WALL = 1000.0  # wall clock minus monotonic clock


def camera(source: ScriptedSource, clock: ManualClock, **config: float) -> AlignedCamera:
    return AlignedCamera(source, clock, CameraConfig(**config), wall=lambda: clock.now() + WALL)


def ticking(clock: ManualClock, source: ScriptedSource, seconds: float = 1 / 15) -> None:
    source.on_wait = lambda: clock.advance(seconds)


def at(number: int, clock_s: float, **kwargs: object) -> FakeFrames:
    return FakeFrames(number, clock_s + WALL, **kwargs)  # type: ignore[arg-type]


def test_a_frame_is_stamped_at_exposure_on_the_monotonic_clock() -> None:
    clock = ManualClock(50.0)
    cam = camera(ScriptedSource([at(1, 49.934)]), clock)
    cam.step()
    frame = cam.latest(1.0)
    assert frame.stamp_s == pytest.approx(49.934)
    assert cam.status().latency_s == pytest.approx(0.066, abs=1e-6)


def test_a_frame_older_than_the_limit_is_refused_with_its_age() -> None:
    clock = ManualClock(50.0)
    cam = camera(ScriptedSource([at(1, 50.0)]), clock)
    cam.step()
    clock.advance(0.5)
    assert cam.latest(0.5).number == 1
    clock.advance(0.01)
    with pytest.raises(StaleData) as caught:
        cam.latest(0.5)
    assert caught.value.source == "camera"
    assert caught.value.age_s == pytest.approx(0.51)


def test_repeated_frames_are_dropped_and_counted_and_do_not_look_fresh() -> None:
    clock = ManualClock(50.0)
    source = ScriptedSource([at(1, 50.0), at(1, 50.0), at(2, 50.0), at(1, 50.2)])
    cam = camera(source, clock)
    for _ in range(4):
        cam.step()
    assert cam.status().counters["repeated"] == 3
    assert cam.status().counters["frames"] == 1
    assert cam.latest(1.0).stamp_s == pytest.approx(50.0)


def test_a_frozen_camera_is_restarted() -> None:
    clock = ManualClock(50.0)
    source = ScriptedSource([at(1, 50.0)] * 200)
    ticking(clock, source)
    cam = camera(source, clock, frozen_after_s=1.0)
    while source.stops == 0:
        cam.step()
    assert clock.now() - 50.0 == pytest.approx(1.0 + 1 / 15 + 0.5, abs=0.2)
    assert source.starts == 1
    assert "repeated the same frame" in cam.status().reason
    cam.step()
    assert source.starts == 2


def test_lost_frames_are_counted_from_the_device_numbers() -> None:
    clock = ManualClock(50.0)
    cam = camera(ScriptedSource([at(1, 50.0), at(4, 50.2)]), clock)
    clock.advance(0.2)
    cam.step()
    cam.step()
    assert cam.status().counters["dropped"] == 2
    assert cam.latest(1.0).number == 4


@pytest.mark.parametrize(("skew_ms", "taken"), [(33, True), (34, False), (40, False), (-40, False)])
def test_colour_and_depth_more_than_half_a_period_apart_are_rejected(skew_ms: int, taken: bool) -> None:
    clock = ManualClock(50.0)
    cam = camera(ScriptedSource([at(1, 50.0, skew_s=skew_ms / 1000)]), clock)
    cam.step()
    counters = cam.status().counters
    assert counters.get("frames", 0) == (1 if taken else 0)
    assert counters.get("skewed", 0) == (0 if taken else 1)


def test_a_frameset_without_depth_is_counted_not_crashed_on() -> None:
    clock = ManualClock(50.0)
    cam = camera(ScriptedSource([at(1, 50.0, depth=False), at(2, 50.07)]), clock)
    clock.advance(0.1)
    cam.step()
    cam.step()
    assert cam.status().counters["incomplete"] == 1
    assert cam.latest(1.0).number == 2


def test_a_camera_that_gives_no_frames_is_restarted_with_growing_pauses_and_reset() -> None:
    clock = ManualClock(50.0)
    source = ScriptedSource([])
    cam = camera(source, clock, backoff_s=0.5, backoff_max_s=4.0, reset_after=2)
    ends = []
    for _ in range(6):
        cam.step()
        ends.append(clock.now())
    pauses = np.diff([50.0, *ends])
    assert pauses == pytest.approx([0.5, 1.0, 2.0, 4.0, 4.0, 4.0], abs=0.11)
    assert source.resets == 2
    assert "Frame didn't arrive" in cam.status().reason
    with pytest.raises(StaleData, match="Frame didn't arrive"):
        cam.latest(1.0)
    source.script = [at(7, clock.now())]
    cam.step()
    assert cam.latest(1.0).number == 7
    assert cam.status().streaming
    assert cam.status().reason == ""


def test_a_camera_may_take_longer_for_its_first_frame_than_for_the_others() -> None:
    clock = ManualClock(50.0)
    late = [NoFrame("Frame didn't arrive")] * 9
    source = ScriptedSource([*late, at(1, 52.95), *late, at(2, 60.0)])
    ticking(clock, source, 0.3)
    cam = camera(source, clock, first_frame_timeout_s=6.0, frame_timeout_s=1.0)
    cam.step()
    assert cam.status().counters["frames"] == 1
    assert source.starts == 1
    cam.step()
    assert cam.status().counters["timeouts"] == 1
    assert clock.now() - 53.0 == pytest.approx(1.2 + 0.5, abs=0.11)


def test_a_raw_runtime_error_of_the_sdk_is_a_lost_camera() -> None:
    clock = ManualClock(50.0)
    source = ScriptedSource([RuntimeError("xioctl(VIDIOC_QBUF) failed"), at(1, 50.6)])
    cam = camera(source, clock)
    cam.step()
    cam.step()
    assert cam.latest(1.0).number == 1


def test_a_camera_that_is_not_there_at_start_is_waited_for() -> None:
    clock = ManualClock(50.0)
    source = ScriptedSource([at(1, 52.0)])
    source.fail_starts = 2
    cam = camera(source, clock)
    cam.step()
    assert "no device" in cam.status().reason
    cam.step()
    cam.step()
    assert cam.status().counters["frames"] == 1


def test_numbers_may_start_anew_after_a_restart() -> None:
    clock = ManualClock(50.0)
    source = ScriptedSource([at(900, 50.0), RuntimeError("gone"), at(1, 50.55)])
    cam = camera(source, clock)
    for _ in range(3):
        cam.step()
    assert cam.latest(1.0).number == 1


@pytest.mark.parametrize(("scale", "counts"), [(0.001, 900), (0.0001, 9000)])
def test_depth_is_metres_whatever_the_scale_of_the_device(scale: float, counts: int) -> None:
    clock = ManualClock(50.0)
    cam = camera(ScriptedSource([at(1, 50.0, counts=counts)], scale=scale), clock)
    cam.step()
    depth = cam.latest(1.0).depth
    assert depth.dtype == np.float32
    assert depth[3, 3] == pytest.approx(0.9, abs=1e-5)
    assert np.isnan(depth[0, 0])


def test_bgr_is_converted_and_an_unknown_format_is_refused() -> None:
    clock = ManualClock(50.0)
    cam = camera(ScriptedSource([at(1, 50.0, layout=rs.format.bgr8)]), clock)
    cam.step()
    assert cam.latest(1.0).color[2, 2].tolist() == [0, 0, 200]
    cam = camera(ScriptedSource([at(1, 50.0, layout=rs.format.yuyv)]), clock)
    cam.step()
    assert "yuyv" in cam.status().reason
    assert "rgb8" in cam.status().reason


def test_setting_the_wall_clock_makes_no_frame_old_or_future() -> None:
    clock = ManualClock(50.0)
    offset = [WALL]
    source = ScriptedSource([])
    cam = AlignedCamera(source, clock, CameraConfig(), wall=lambda: clock.now() + offset[0])
    for number in range(1, 20):
        if number == 10:
            offset[0] -= 10.0
        clock.advance(1 / 15)
        # The device follows the host's clock only from the fifteenth frame on.
        device_offset = WALL if number < 15 else offset[0] + 0.001 * number
        source.script.append(FakeFrames(number, clock.now() - 0.03 + device_offset))
        cam.step()
        assert -0.05 <= clock.now() - cam.latest(5.0).stamp_s < 0.2


def test_a_recording_with_old_stamps_is_anchored_at_arrival() -> None:
    clock = ManualClock(50.0)
    source = ScriptedSource([FakeFrames(i, 10.0 + i / 15, domain=rs.timestamp_domain.hardware_clock) for i in range(1, 5)])
    ticking(clock, source)
    cam = camera(source, clock)
    stamps = []
    for _ in range(4):
        cam.step()
        stamps.append(cam.latest(1.0).stamp_s)
    assert np.diff(stamps) == pytest.approx([1 / 15] * 3, abs=1e-6)
    assert stamps[-1] == pytest.approx(clock.now(), abs=1e-6)


def test_wait_after_gives_up_and_says_so() -> None:
    clock = ManualClock(50.0)
    cam = camera(ScriptedSource([at(1, 50.0)]), clock)
    cam.step()
    assert cam.wait_after(49.9, 0.1).number == 1
    with pytest.raises(StaleData):
        cam.wait_after(50.0, 0.0)
