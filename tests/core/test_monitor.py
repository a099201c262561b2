"""The progress monitor: its verdicts depend on progress and seconds, on nothing else."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlatools.core import ConfigError, MonitorConfig, MonitorOverrides, ProgressMonitor, ProgressSample, Verdict

CONFIG = MonitorConfig(
    completion_threshold=0.9,
    completion_hold_s=0.2,
    smoothing_s=0.3,
    stall_window_s=3.0,
    stall_gain=0.02,
    grace_s=1.0,
    horizon_s=15.0,
)


def run(curve, rate_hz: float = 10.0, config: MonitorConfig = CONFIG, start: float = 100.0) -> ProgressSample:
    """Feed ``curve(seconds since start)`` at ``rate_hz`` until a terminal verdict or twice the horizon."""
    monitor = ProgressMonitor(config, start)
    sample = monitor.tick(start)
    for i in range(1, int(2 * config.horizon_s * rate_hz)):
        elapsed = i / rate_hz
        sample = monitor.update(start + elapsed, curve(elapsed))
        if sample.verdict is not Verdict.CONTINUE:
            break
    return sample


def test_completes_only_after_the_hold_time() -> None:
    sample = run(lambda t: 1.0 if t >= 2.0 else 0.5 * t)
    assert sample.verdict is Verdict.ADVANCE
    assert 2.2 <= sample.elapsed_s <= 2.6  # rise at 2.0, median smoothing and hold


def test_a_spike_does_not_complete() -> None:
    assert run(lambda t: 1.0 if 2.0 <= t < 2.15 else min(0.8, 0.3 * t)).verdict is not Verdict.ADVANCE


def test_just_below_the_threshold_is_not_complete_and_just_at_it_is() -> None:
    assert run(lambda t: min(0.899, t)).verdict is Verdict.REPLAN
    assert run(lambda t: min(0.9, t)).verdict is Verdict.ADVANCE


def test_flat_progress_stagnates_after_grace_and_window() -> None:
    sample = run(lambda t: 0.4)
    assert sample.verdict is Verdict.REPLAN
    assert sample.elapsed_s == pytest.approx(CONFIG.grace_s + CONFIG.stall_window_s, abs=0.11)


@pytest.mark.parametrize("rate_hz", [2.0, 5.0, 10.0, 30.0, 100.0])
def test_slow_steady_rise_just_above_the_allowance_is_no_stall(rate_hz: float) -> None:
    slope = 1.05 * CONFIG.stall_gain / CONFIG.stall_window_s
    assert run(lambda t: 0.1 + slope * t, rate_hz).verdict is Verdict.TIMEOUT


@pytest.mark.parametrize("rate_hz", [2.0, 5.0, 10.0, 30.0, 100.0])
def test_slow_steady_rise_just_below_the_allowance_is_a_stall(rate_hz: float) -> None:
    slope = 0.90 * CONFIG.stall_gain / CONFIG.stall_window_s
    sample = run(lambda t: 0.1 + slope * t, rate_hz)
    assert sample.verdict is Verdict.REPLAN
    assert sample.elapsed_s == pytest.approx(4.0, abs=1.0 / rate_hz + 0.01)


def test_task_progress_counts_not_translation() -> None:
    """C45: an in-place rotation whose progress rises is no stall; the monitor never sees a position."""
    assert run(lambda t: t / 14.0).verdict is Verdict.ADVANCE


def test_pinned_progress_is_flagged_however_often_the_same_sample_is_repeated() -> None:
    """C52-like: nothing but progress restarts the stall clock."""
    monitor = ProgressMonitor(CONFIG, 0.0)
    verdicts = []
    for i in range(1, 60):
        verdicts.append(monitor.update(0.1 * i, 0.3).verdict)
        monitor.update(0.1 * i, 0.3)  # the same sample again
    assert Verdict.REPLAN in verdicts
    assert monitor.dropped > 0


def test_silence_stagnates() -> None:
    monitor = ProgressMonitor(CONFIG, 0.0)
    monitor.update(0.5, 0.4)
    assert monitor.tick(3.9).verdict is Verdict.CONTINUE
    assert monitor.tick(4.1).verdict is Verdict.REPLAN


def test_falling_progress_is_stagnation() -> None:
    assert run(lambda t: max(0.0, 0.8 - 0.1 * t)).verdict is Verdict.REPLAN


def test_horizon_is_a_timeout() -> None:
    sample = run(lambda t: 0.8 * t / 15.0)
    assert sample.verdict is Verdict.TIMEOUT
    assert sample.elapsed_s == pytest.approx(15.0, abs=0.11)


def test_not_finite_samples_are_dropped_and_counted() -> None:
    monitor = ProgressMonitor(CONFIG, 0.0)
    monitor.update(0.1, 0.5)
    for i, bad in enumerate((math.nan, math.inf, -math.inf)):
        assert monitor.update(0.2 + 0.1 * i, bad).smoothed == 0.5
    monitor.update(math.nan, 0.9)
    monitor.update(0.1, 0.9)  # does not advance in time
    assert monitor.dropped == 5
    assert monitor.smoothed == 0.5


def test_only_not_finite_samples_end_as_stagnation_not_never() -> None:
    assert run(lambda t: math.nan).verdict is Verdict.REPLAN


def test_values_outside_the_unit_interval_are_clipped() -> None:
    monitor = ProgressMonitor(CONFIG, 0.0)
    assert monitor.update(0.1, 7.0).smoothed == 1.0
    monitor = ProgressMonitor(CONFIG, 0.0)
    assert monitor.update(0.1, -3.0).smoothed == 0.0


def test_a_terminal_verdict_is_latched() -> None:
    monitor = ProgressMonitor(CONFIG, 0.0)
    final = None
    for i in range(1, 60):
        final = monitor.update(0.1 * i, 0.3)
    assert final is not None
    assert final.verdict is Verdict.REPLAN
    assert monitor.update(10.0, 1.0) is final
    assert monitor.tick(100.0) is final


def test_overrides_replace_only_what_they_name() -> None:
    config = CONFIG.with_overrides(MonitorOverrides(completion_threshold=0.8), 4.0)
    assert (config.completion_threshold, config.horizon_s, config.stall_gain) == (0.8, 4.0, CONFIG.stall_gain)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("completion_threshold", 0.0),
        ("completion_threshold", 1.01),
        ("stall_window_s", 0.0),
        ("stall_gain", -0.1),
        ("horizon_s", 601.0),
        ("grace_s", math.nan),
    ],
)
def test_a_threshold_out_of_range_is_refused_by_name(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=key):
        MonitorConfig(**{key: value})


progress_values = st.one_of(st.floats(-0.5, 1.5), st.just(math.nan), st.just(math.inf))
steps = st.lists(st.tuples(st.floats(0.001, 1.0), progress_values), min_size=1, max_size=120)


@given(steps)
@settings(max_examples=200, deadline=None)
def test_invariants_of_any_history(history: list[tuple[float, float]]) -> None:
    monitor = ProgressMonitor(CONFIG, 0.0)
    time_s, seen, good, above_since = 0.0, 0, 0, None
    final = None
    for step, value in history:
        time_s += step
        sample = monitor.update(time_s, value)
        if final is not None:
            assert sample is final
            continue
        seen, good = seen + 1, good + math.isfinite(value)
        assert 0.0 <= sample.smoothed <= 1.0
        assert monitor.dropped == seen - good
        if math.isfinite(value):
            above_since = (above_since if above_since is not None else time_s) if sample.smoothed >= 0.9 else None
        if sample.verdict is not Verdict.CONTINUE:
            final = sample
        match sample.verdict:
            case Verdict.ADVANCE:
                assert above_since is not None
                assert sample.smoothed >= CONFIG.completion_threshold
            case Verdict.TIMEOUT:
                assert sample.elapsed_s >= CONFIG.horizon_s
            case Verdict.REPLAN:
                assert sample.elapsed_s >= CONFIG.grace_s + CONFIG.stall_window_s
                assert sample.gain < CONFIG.stall_gain
            case Verdict.CONTINUE:
                assert sample.elapsed_s < CONFIG.horizon_s


@given(
    level=st.floats(0.0, 0.85),
    rise_s=st.floats(0.5, 6.0),
    rate_a=st.sampled_from([4.0, 5.0, 10.0, 20.0]),
    rate_b=st.sampled_from([30.0, 50.0, 100.0]),
)
@settings(max_examples=80, deadline=None)
def test_the_verdict_does_not_depend_on_the_rate(level: float, rise_s: float, rate_a: float, rate_b: float) -> None:
    """A rise to a plateau, seen at two rates: the same verdict at the same time, to within a sample and the smoothing."""

    def curve(t: float) -> float:
        return level * min(1.0, t / rise_s)

    a, b = run(curve, rate_a), run(curve, rate_b)
    assert a.verdict is b.verdict
    assert abs(a.elapsed_s - b.elapsed_s) <= CONFIG.smoothing_s + CONFIG.stall_gain * rise_s / max(level, 0.1) + 2 / rate_a


@given(shift=st.floats(0.0, 1e6))
@settings(max_examples=30, deadline=None)
def test_the_verdict_does_not_depend_on_the_clock_s_origin(shift: float) -> None:
    sample = run(lambda t: 0.4, start=shift)
    assert sample.verdict is Verdict.REPLAN
    assert sample.elapsed_s == pytest.approx(4.0, abs=0.11)
