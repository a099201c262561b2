"""State in shared memory: never torn, never two writers, never a dead simulation taken for a living one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from vlatools.core import ConfigError
from vlatools.sim.scene import load_scene, sample
from vlatools.sim.state_share import StateReader, StateWriter


@pytest.fixture
def domain() -> Iterator[str]:
    name = f"test-{os.getpid()}"
    yield name
    for suffix in ("state", "json"):
        path = f"/dev/shm/vlatools-{name}.{suffix}"
        if os.path.exists(path):
            os.unlink(path)


def test_no_simulation_no_state(domain: str) -> None:
    assert StateReader(domain).read() is None


def test_a_state_arrives_with_its_scene(domain: str) -> None:
    instance, writer, reader = sample(load_scene("simple"), 3), StateWriter(domain), StateReader(domain)
    assert reader.read() is None  # a writer without a state
    writer.set_scene(instance)
    writer.write(np.arange(37.0), 1.5, 7.0)
    state = reader.read()
    assert state is not None and np.array_equal(state.qpos, np.arange(37.0)) and (state.time_s, state.lab_s) == (1.5, 7.0)
    assert reader.scene() == instance
    generation = state.generation
    writer.set_scene(instance)
    assert reader.read() is None  # no state of the new scene yet
    writer.write(np.zeros(37), 1.6, 7.0)
    state = reader.read()
    assert state is not None and state.generation == generation + 1
    writer.set_camera_frozen(True)
    state = reader.read()
    assert state is not None and state.camera_frozen
    writer.close()


def test_a_dead_writer_is_noticed_and_a_new_one_is_seen(domain: str) -> None:
    instance, reader = sample(load_scene("simple"), 3), StateReader(domain)
    for _ in range(2):
        writer = StateWriter(domain)
        writer.set_scene(instance)
        writer.write(np.zeros(3), 0.0, 7.0)
        assert reader.read() is not None
        writer.close()
        assert reader.read() is None
    writer = StateWriter(domain)
    writer.set_scene(instance)
    writer.write(np.zeros(3), 0.0, 7.0)
    time.sleep(0.06)
    assert reader.read(max_age_s=0.05) is None  # a writer that hangs


def test_a_second_writer_is_refused(domain: str) -> None:
    writer = StateWriter(domain)
    with pytest.raises(ConfigError, match="another simulation"):
        StateWriter(domain)
    writer.close()
    StateWriter(domain).close()


def test_a_killed_writer_leaves_no_torn_state(domain: str) -> None:
    writer = StateWriter(domain)
    writer.set_scene(sample(load_scene("simple"), 3))
    writer.write(np.zeros(3), 0.0, 7.0)
    writer._words[1] += 1  # killed in the middle of a write
    assert StateReader(domain).read() is None
    writer.close()
    again = StateWriter(domain)
    again.set_scene(sample(load_scene("simple"), 3))
    again.write(np.ones(3), 0.0, 7.0)
    assert StateReader(domain).read() is not None
    again.close()


def test_no_state_is_ever_half_of_two(domain: str) -> None:
    writer, reader = StateWriter(domain), StateReader(domain)
    writer.set_scene(sample(load_scene("simple"), 3))
    ending = threading.Event()

    def write() -> None:
        count = 0.0
        while not ending.is_set():
            count += 1
            writer.write(np.full(150, count), count, 7.0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = 0
        for _ in range(2000):
            state = reader.read()
            if state is not None:
                seen += 1
                assert np.all(state.qpos == state.time_s)
    finally:
        ending.set()
        thread.join()
        writer.close()
    assert seen > 100


def test_nonsense_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"domain is '\.\./x'"):
        StateWriter("../x")
