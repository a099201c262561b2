"""Scenes: drawn reproducibly, within their ranges, apart from each other; instances survive JSON."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vlatools.core import ConfigError
from vlatools.sim.scene import Kind, ObjectSpec, SceneConfig, SceneInstance, load_scene, sample

SCENES = ("simple", "conditioned", "long")


@pytest.mark.parametrize("name", SCENES)
def test_same_seed_gives_the_same_instance_and_another_seed_another(name: str) -> None:
    config = load_scene(name)
    assert sample(config, 7) == sample(config, 7)
    assert sample(config, 7) != sample(config, 8)


@pytest.mark.parametrize("name", SCENES)
def test_objects_stand_in_their_ranges_and_apart(name: str) -> None:
    config = load_scene(name)
    for seed in range(100):
        instance = sample(config, seed)
        assert instance.names == tuple(spec.name for spec in config.objects)
        for spec, thing in zip(config.objects, instance.objects, strict=True):
            assert spec.x[0] <= thing.x <= spec.x[1] and spec.y[0] <= thing.y <= spec.y[1]
        for i, a in enumerate(instance.objects):
            for b in instance.objects[:i]:
                reach = sum(t.size / 2 if t.kind is Kind.BOWL else t.size / math.sqrt(2) for t in (a, b))
                assert math.dist((a.x, a.y), (b.x, b.y)) - reach >= config.min_gap - 1e-9


def test_left_is_positive_y() -> None:
    instance = sample(load_scene("simple"), 0)
    y = {thing.name: thing.y for thing in instance.objects}
    assert y["red cube"] > 0 > y["yellow cube"] and y["left bowl"] > 0 > y["right bowl"]


def test_instance_survives_json() -> None:
    instance = sample(load_scene("long"), 3)
    assert SceneInstance.from_json(instance.to_json()) == instance


def test_camera_looks_at_its_target() -> None:
    instance = sample(load_scene("simple"), 0)
    seen = instance.camera_to_base.inverse()
    target = seen.rotation @ np.array(instance.camera_look_at) + seen.position
    assert np.allclose(target[:2], 0.0, atol=1e-9) and target[2] > 0.5
    up = seen.rotation @ np.array([0.0, 0.0, 1.0])
    assert up[1] < 0  # the image's y axis points down


def test_unknown_scene_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="conditioned, long, simple"):
        load_scene("kitchen")


def test_ranges_without_room_are_refused_at_sampling() -> None:
    narrow = ObjectSpec("a", Kind.CUBE, "red", (0.5, 0.5), (0.0, 0.0))
    with pytest.raises(ConfigError, match="no free place for 'b'"):
        sample(SceneConfig("full", (narrow, replace(narrow, name="b"))), 0)


@pytest.mark.parametrize(
    ("change", "key"),
    [({"x": (0.9, 0.5)}, "x"), ({"color": "pink"}, "color"), ({"size": (0.04, 0.2)}, "size"), ({"mass": -1.0}, "mass")],
)
def test_nonsense_is_refused_by_name(change: dict[str, object], key: str) -> None:
    good = ObjectSpec("red cube", Kind.CUBE, "red", (0.4, 0.5), (0.0, 0.1))
    with pytest.raises(ConfigError, match=f"red cube.*{key}"):
        replace(good, **change)  # type: ignore[arg-type]
