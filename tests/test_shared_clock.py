"""The simulated lab's time: slow where the simulation is slow, never back, and running on without it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vlatools.shared_clock as shared
from vlatools.core import MonotonicClock
from vlatools.shared_clock import SharedClock, SharedClockWriter, lab_clock


class Host:
    """The host's monotonic clock in the hand of a test."""

    def __init__(self) -> None:
        self.now = 1000.0


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    given_host = Host()
    monkeypatch.setattr(shared.time, "monotonic", lambda: given_host.now)
    return given_host


@pytest.fixture
def domain() -> Iterator[str]:
    name = f"test-clock-{os.getpid()}"
    yield name
    shared._path(name).unlink(missing_ok=True)


def test_before_a_simulation_it_is_the_host_clock(host: Host, domain: str) -> None:
    clock = SharedClock(domain)
    assert clock.now() == 1000.0
    host.now = 1002.0
    assert clock.now() == 1002.0


def test_a_simulation_at_a_quarter_of_real_time_gives_a_quarter_of_the_time(host: Host, domain: str) -> None:
    writer, clock = SharedClockWriter(domain), SharedClock(domain)
    for step in range(1, 1001):
        host.now += 0.004
        writer.step(step * 0.001)
    assert clock.now() == pytest.approx(1001.0)
    assert host.now == pytest.approx(1004.0)
    writer.close()


def test_it_runs_on_when_the_simulation_dies_and_the_next_one_goes_on_from_there(host: Host, domain: str) -> None:
    writer, clock = SharedClockWriter(domain), SharedClock(domain)
    host.now += 0.1
    writer.step(0.1)
    before, offset = clock.now(), clock.epoch_offset_s
    host.now += 10.0  # killed
    lost = clock.now()
    assert lost - before == pytest.approx(10.0 - 0.5 + 0.01)
    again = SharedClockWriter(domain)
    assert clock.now() >= lost
    host.now += 0.2
    again.step(0.2)
    assert clock.now() - lost == pytest.approx(0.2, abs=0.02)
    assert clock.epoch_offset_s == offset


@given(steps=st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 0.05), st.booleans()), max_size=60))
def test_time_never_goes_back_and_is_the_same_for_every_reader(steps: list[tuple[float, float, bool]]) -> None:
    """(host seconds that pass, simulated seconds of the step, the simulation is restarted)"""
    name, now = f"test-clock-{os.getpid()}-h", 1000.0
    original = time.monotonic
    shared.time.monotonic = lambda: now  # type: ignore[attr-defined]
    try:
        writer, old, simulated, last = SharedClockWriter(name), SharedClock(name), 0.0, 0.0
        for wall, sim, restart in steps:
            now += wall
            assert old.now() >= last
            last = old.now()
            if restart:
                writer.close()
                writer, simulated = SharedClockWriter(name), 0.0
            simulated += sim
            writer.step(simulated)
            fresh = SharedClock(name)
            assert fresh.now() >= last - 1e-9 - 0.0105  # what was carried on is at most one step's carry
            assert old.now() >= last
            last = old.now()
            fresh.close()
        writer.close()
        old.close()
    finally:
        shared.time.monotonic = original  # type: ignore[attr-defined]
        shared._path(name).unlink(missing_ok=True)


def test_sleep_is_in_simulated_seconds(domain: str) -> None:
    import threading

    writer, clock = SharedClockWriter(domain), SharedClock(domain)
    ending = threading.Event()

    def simulate() -> None:
        begin = time.monotonic()
        while not ending.wait(0.005):
            writer.step(0.25 * (time.monotonic() - begin))

    thread = threading.Thread(target=simulate)
    thread.start()
    try:
        begin_host, begin = time.monotonic(), clock.now()
        clock.sleep(0.2)
        assert clock.now() - begin >= 0.2
        assert time.monotonic() - begin_host >= 0.7
    finally:
        ending.set()
        thread.join()
        writer.close()


def test_the_environment_chooses_the_clock(monkeypatch: pytest.MonkeyPatch, domain: str) -> None:
    monkeypatch.delenv(shared.VARIABLE, raising=False)
    assert isinstance(lab_clock(), MonotonicClock)
    monkeypatch.setenv(shared.VARIABLE, domain)
    assert isinstance(lab_clock(), SharedClock)
    assert lab_clock() is lab_clock()


def test_no_time_is_ever_half_of_two(domain: str) -> None:
    """A torn double was 21 s off once, and readers never go back."""
    import threading

    writer, clock, ending = SharedClockWriter(domain), SharedClock(domain), threading.Event()
    begin = clock.now()

    def write() -> None:
        step = 0
        while not ending.is_set():
            step += 1
            writer.step(step * 1e-7)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert max(clock.now() for _ in range(200_000)) - begin < 0.5
    finally:
        ending.set()
        thread.join()
        writer.close()


def test_a_writer_killed_in_the_middle_of_a_write_leaves_the_last_good_time(host: Host, domain: str) -> None:
    writer, clock = SharedClockWriter(domain), SharedClock(domain)
    assert clock.now() == pytest.approx(1000.0)
    writer._words[0] += 1
    writer._reals[1] = 5000.0
    assert clock.now() < 1001.0
    host.now += 5.0
    assert SharedClock(domain).now() > 1000.0
