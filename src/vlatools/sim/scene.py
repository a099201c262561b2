"""What stands on the simulated table: a scene's configuration, and one sampled instance of it.

An instance is plain data that goes through JSON, so that the process that draws the scene builds the very same model.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from vlatools.core import ConfigError, Pose
from vlatools.core.pose import matrix_to_quat

_FORBID: dict[str, Any] = {"extra": "forbid"}
_TRIES = 200
_SCENES = Path(__file__).resolve().parents[3] / "config" / "scenes"

# Every bowl has the same shape: an open ring of tilted boards on a round floor, m.
BOWL_HEIGHT = 0.045
BOWL_INNER_RADIUS = 0.062  # at the rim
BOWL_FLOOR_RADIUS = 0.045  # inner, at the floor
BOWL_WALL = 0.004
BOWL_DIAMETER = 2 * (BOWL_INNER_RADIUS + BOWL_WALL)

COLORS: dict[str, tuple[float, float, float]] = {
    "red": (0.80, 0.09, 0.07),
    "orange": (0.92, 0.42, 0.05),
    "yellow": (0.93, 0.74, 0.06),
    "green": (0.10, 0.55, 0.18),
    "blue": (0.08, 0.22, 0.75),
    "purple": (0.42, 0.14, 0.60),
    "grey": (0.78, 0.79, 0.80),
    "white": (0.90, 0.90, 0.90),
}


def _range(key: str, pair: tuple[float, float], low: float, high: float) -> None:
    if not (all(math.isfinite(value) for value in pair) and low <= pair[0] <= pair[1] <= high):
        raise ConfigError(f"scene: {key} is {list(pair)}, it must be [low, high] with {low:g} <= low <= high <= {high:g}")


class Kind(str, Enum):
    """Shape of an object."""

    CUBE = "cube"
    BOWL = "bowl"


@dataclass(frozen=True)
class ObjectSpec:
    """One object of a scene and where it may stand; ranges are [low, high], drawn uniformly.

    Attributes:
        name: unique, as a person would say it at the start: "red cube", "left bowl".
        kind: cube or bowl.
        color: a key of ``COLORS``.
        x, y: of its centre in fr3_link0, m.
        yaw: rad.
        size: edge of a cube, m. A bowl has one fixed shape.
        mass: kg; None takes 50 g for a cube of 4 cm (with its volume) and 120 g for a bowl.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str
    kind: Kind
    color: str
    x: tuple[float, float]
    y: tuple[float, float]
    yaw: tuple[float, float] = (0.0, 0.0)
    size: tuple[float, float] = (0.04, 0.04)
    mass: float | None = None

    def __post_init__(self) -> None:
        where = f"objects: {self.name!r}"
        if not self.name.strip():
            raise ConfigError("scene: an object has an empty name: give it one, e.g. 'red cube'")
        if self.color not in COLORS:
            raise ConfigError(f"scene: {where} has color {self.color!r}, known are {', '.join(COLORS)}")
        _range(f"{where}.x", self.x, 0.2, 0.85)
        _range(f"{where}.y", self.y, -0.5, 0.5)
        _range(f"{where}.yaw", self.yaw, -math.pi, math.pi)
        _range(f"{where}.size", self.size, 0.02, 0.075)
        if self.mass is not None and not 0.005 <= self.mass <= 3.0:
            raise ConfigError(f"scene: {where}.mass is {self.mass} kg, the limits are 0.005 and 3")


@dataclass(frozen=True)
class CameraSpec:
    """Where the camera stands (m, fr3_link0) and the point on which it looks; ``jitter`` moves it at random, m."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    position: tuple[float, float, float] = (1.10, 0.0, 0.70)
    look_at: tuple[float, float, float] = (0.50, 0.0, 0.02)
    jitter: float = 0.0

    def __post_init__(self) -> None:
        distance = math.dist(self.position, self.look_at)
        if not 0.3 <= distance <= 3.0:
            raise ConfigError(f"scene: camera is {distance:.2f} m from look_at, a D435 measures from 0.3 to 3 m")
        if math.dist(self.position[:2], self.look_at[:2]) < 0.01:
            raise ConfigError("scene: the camera looks straight down, which leaves its turn open: move it by 1 cm")
        if not 0.0 <= self.jitter <= 0.1:
            raise ConfigError(f"scene: camera.jitter is {self.jitter} m, the limits are 0 and 0.1")


@dataclass(frozen=True)
class SceneConfig:
    """A kind of scene; :func:`sample` draws instances of it.

    Attributes:
        name: of the scene.
        objects: what stands on the table.
        min_gap: smallest free distance between two objects, m.
        camera: its pose.
        light: brightness, drawn uniformly.
        table: brightness of the white table top, 0 to 1, drawn uniformly.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str
    objects: tuple[ObjectSpec, ...]
    min_gap: float = 0.03
    camera: CameraSpec = CameraSpec()
    light: tuple[float, float] = (0.9, 1.05)
    table: tuple[float, float] = (0.88, 0.94)

    def __post_init__(self) -> None:
        names = [spec.name for spec in self.objects]
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"scene {self.name!r}: objects are {names}: give at least one, each name once")
        if not 0.0 <= self.min_gap <= 0.2:
            raise ConfigError(f"scene {self.name!r}: min_gap is {self.min_gap} m, the limits are 0 and 0.2")
        _range("light", self.light, 0.3, 1.5)
        _range("table", self.table, 0.2, 1.0)


@dataclass(frozen=True)
class ObjectInstance:
    """One object as it stands: centre x, y (m), yaw (rad), size = edge of a cube or outer rim diameter of a bowl (m)."""

    name: str
    kind: Kind
    color: str
    x: float
    y: float
    yaw: float
    size: float
    mass: float

    @property
    def height(self) -> float:
        """Vertical extent, m."""
        return BOWL_HEIGHT if self.kind is Kind.BOWL else self.size

    @property
    def extents(self) -> tuple[float, float, float]:
        """Bounding box along its own axes, m."""
        return (self.size, self.size, self.height)

    @property
    def pose(self) -> Pose:
        """Pose of the centre of the bounding box, standing on the table."""
        half = self.yaw / 2
        return Pose(np.array([self.x, self.y, self.height / 2]), np.array([0.0, 0.0, math.sin(half), math.cos(half)]))


@dataclass(frozen=True)
class SceneInstance:
    """One drawn scene, complete: the same instance gives the same model bit for bit."""

    scene: str
    seed: int
    objects: tuple[ObjectInstance, ...]
    camera_position: tuple[float, float, float]
    camera_look_at: tuple[float, float, float]
    light: float
    table: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the objects."""
        return tuple(thing.name for thing in self.objects)

    @property
    def camera_to_base(self) -> Pose:
        """Pose of the colour camera's optical frame (x right, y down, z forward) in fr3_link0."""
        eye, target = np.array(self.camera_position), np.array(self.camera_look_at)
        forward = (target - eye) / np.linalg.norm(target - eye)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        return Pose(eye, matrix_to_quat(np.column_stack([right, np.cross(forward, right), forward])))

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> SceneInstance:
        """Instance from :meth:`to_json`'s text."""
        raw = json.loads(text)
        things = tuple(ObjectInstance(**{**item, "kind": Kind(item["kind"])}) for item in raw.pop("objects"))
        for key in ("camera_position", "camera_look_at"):
            raw[key] = tuple(raw[key])
        return SceneInstance(objects=things, **raw)


def load_scene(scene: str | Path) -> SceneConfig:
    """Scene of that name in config/scenes, or of a YAML file. Raises ConfigError naming the scenes there are."""
    from vlatools import config

    path = Path(scene)
    if path.suffix not in (".yaml", ".yml"):
        path = _SCENES / f"{scene}.yaml"
        if not path.is_file():
            known = ", ".join(sorted(item.stem for item in _SCENES.glob("*.yaml")))
            raise ConfigError(f"scene {str(scene)!r} is not known, there are: {known}; or give the path of a .yaml file")
    return config.load(SceneConfig, path)


def sample(config: SceneConfig, seed: int) -> SceneInstance:
    """Draw the instance number ``seed`` (>= 0); the same seed gives the same instance.

    Raises:
        ConfigError: no place was found for an object: the ranges are too narrow for ``min_gap``.
    """
    rng = np.random.default_rng([seed, 20])
    placed: list[ObjectInstance] = []
    restarts = 0
    while len(placed) < len(config.objects):
        spec = config.objects[len(placed)]
        thing = _place(spec, placed, config.min_gap, rng)
        if thing is not None:
            placed.append(thing)
            continue
        placed.clear()
        restarts += 1
        if restarts > 20:
            raise ConfigError(
                f"scene {config.name!r}: no free place for {spec.name!r} after {restarts} restarts: "
                f"widen its x and y ranges or lower min_gap ({config.min_gap} m)"
            )
    shift = rng.uniform(-config.camera.jitter, config.camera.jitter, 3)
    position = np.array(config.camera.position) + shift
    return SceneInstance(
        scene=config.name,
        seed=seed,
        objects=tuple(placed),
        camera_position=(float(position[0]), float(position[1]), float(position[2])),
        camera_look_at=config.camera.look_at,
        light=float(rng.uniform(*config.light)),
        table=float(rng.uniform(*config.table)),
    )


def _place(spec: ObjectSpec, placed: list[ObjectInstance], min_gap: float, rng: np.random.Generator) -> ObjectInstance | None:
    size = BOWL_DIAMETER if spec.kind is Kind.BOWL else float(rng.uniform(*spec.size))
    mass = spec.mass if spec.mass is not None else (0.12 if spec.kind is Kind.BOWL else 0.05 * (size / 0.04) ** 3)
    for _ in range(_TRIES):
        x, y, yaw = (float(rng.uniform(*limits)) for limits in (spec.x, spec.y, spec.yaw))
        thing = ObjectInstance(spec.name, spec.kind, spec.color, x, y, yaw, size, mass)
        if all(math.dist((x, y), (other.x, other.y)) >= _reach(thing) + _reach(other) + min_gap for other in placed):
            return thing
    return None


def _reach(thing: ObjectInstance) -> float:
    """Radius of the circle around an object seen from above."""
    return thing.size / 2 if thing.kind is Kind.BOWL else thing.size / math.sqrt(2)
