"""Random tables and what a person may ask for on them; a share of them are the scenes of the three tasks themselves."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from vlatools.config import config_root
from vlatools.sim.scene import CameraSpec, Kind, ObjectSpec, SceneConfig, load_scene
from vlatools.trials.tasks import load_task

CUBE_COLORS = ("red", "yellow", "green", "blue", "orange", "purple")
TASKS = ("simple", "conditioned", "long")
_X, _Y = (0.39, 0.62), (-0.18, 0.18)  # where things stand, m
_CUBE_SIZES = (0.03, 0.05)
_GAP = 0.03
_CAMERA_JITTER = 0.03
_LIGHT, _TABLE = (0.6, 1.25), (0.45, 0.95)
_TURN = 0.75  # rad, either way


@dataclass(frozen=True)
class Request:
    """A table and what is asked for on it.

    Attributes:
        scene: to be sampled with the episode's seed.
        instruction: of the whole demonstration.
        task: name of the task that it is a demonstration of, "" for a random one.
        time_limit_s: for the whole demonstration.
    """

    scene: SceneConfig
    instruction: str
    task: str
    time_limit_s: float = 120.0


def task_request(task: str, rng: np.random.Generator, varied: bool = True) -> Request:
    """A demonstration of one of ``TASKS``; ``varied`` changes sizes, light, table and camera, and adds distractors."""
    config = load_task(config_root() / "tasks", task)
    scene = load_scene(config.scene)
    if varied:
        objects = tuple(_resized(spec, rng) for spec in scene.objects)
        scene = dataclasses.replace(_surroundings(scene, rng), objects=objects + _distractors(objects, rng, int(rng.integers(0, 2))))
    return Request(scene, config.instruction, task)


def random_request(rng: np.random.Generator) -> Request:
    """Two to four cubes, at most two bowls, and one to three movements in words."""
    cubes = [f"{color} cube" for color in rng.permutation(CUBE_COLORS)[: rng.integers(2, 5)]]
    bowls = ["left bowl", "right bowl"] if rng.random() < 0.7 else []
    places = zip(bowls, ((0.08, 0.17), (-0.17, -0.08)), strict=False)
    objects = [ObjectSpec(name, Kind.BOWL, "grey", (0.42, 0.62), y) for name, y in places]  # the largest are placed first
    objects += [_cube(name) for name in cubes]
    scene = _surroundings(SceneConfig("demonstration", tuple(objects), min_gap=_GAP), rng)
    return Request(scene, ", then ".join(_sentences(cubes, bowls, rng)), "")


def _sentences(cubes: list[str], bowls: list[str], rng: np.random.Generator) -> list[str]:
    """Movements that are possible one after the other: nothing is put on what is covered, nothing covered is moved."""
    free, empty, left = list(cubes), list(bowls), list(cubes)
    said: list[str] = []
    for _ in range(int(rng.integers(1, 4))):
        if not left:
            break
        name = left.pop(int(rng.integers(len(left))))
        supports = [other for other in free if other != name]
        kind = rng.choice(["bowl", "stack", "beside"], p=[0.45, 0.4, 0.15])
        if kind == "bowl" and empty:
            bowl = empty.pop(int(rng.integers(len(empty))))
            said.append(f"put the {name} into the {bowl}")
        elif kind != "beside" and supports:
            support = supports[int(rng.integers(len(supports)))]
            said.append(f"stack the {name} on the {support}")
            free.remove(support)
            left = [other for other in left if other != support]
        elif supports:
            said.append(f"put the {name} to the {rng.choice(['left', 'right'])} of the {supports[int(rng.integers(len(supports)))]}")
        else:
            continue
        free = [other for other in free if other != name] + ([name] if kind == "stack" else [])
    return said or [f"stack the {cubes[0]} on the {cubes[1]}"]


def _cube(name: str) -> ObjectSpec:
    return ObjectSpec(name, Kind.CUBE, name.split()[0], _X, _Y, (-_TURN, _TURN), _CUBE_SIZES)


def _resized(spec: ObjectSpec, rng: np.random.Generator) -> ObjectSpec:
    return spec if spec.kind is Kind.BOWL or rng.random() < 0.3 else dataclasses.replace(spec, size=_CUBE_SIZES)


def _distractors(objects: tuple[ObjectSpec, ...], rng: np.random.Generator, count: int) -> tuple[ObjectSpec, ...]:
    used = {spec.color for spec in objects}
    colors = [color for color in rng.permutation(CUBE_COLORS) if color not in used]
    return tuple(_cube(f"{color} cube") for color in colors[:count])


def _surroundings(scene: SceneConfig, rng: np.random.Generator) -> SceneConfig:
    camera = CameraSpec(scene.camera.position, scene.camera.look_at, _CAMERA_JITTER)
    return dataclasses.replace(scene, camera=camera, light=_LIGHT, table=_TABLE)
