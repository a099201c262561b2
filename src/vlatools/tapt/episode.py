"""A demonstration on disk: measured states at 20 Hz, small pictures at 4 Hz, what was said, and in simulation the truth.

One folder: ``episode.json``, ``steps.npz``, ``frames.npz``, for scoring ``truth.json`` and ``truth.npz``, and ``labels.json`` once
it has been labelled. Whole folders appear at once; a killed collector leaves none behind that looks complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics
from vlatools.core import Pose, VlatoolsError

FORMAT = 1
STEP_S = 0.05  # between two steps
FRAME_S = 0.25  # between two pictures
INFO, STEPS, FRAMES, TRUTH, TRUTH_POSES, LABELS = (
    "episode.json",
    "steps.npz",
    "frames.npz",
    "truth.json",
    "truth.npz",
    "labels.json",
)


class EpisodeError(VlatoolsError):
    """An episode folder cannot be read."""


@dataclass(frozen=True)
class Steps:
    """Measured states, T rows 50 ms apart.

    Attributes:
        time_s: (T,) seconds.
        ee: (T, 7) x y z [m] qx qy qz qw of fr3_hand_tcp in fr3_link0.
        width: (T,) full opening of the gripper, m.
        opening: (T,) commanded opening, m; 0 closes with force.
        holding: (T,) bool, an object is held.
        wrench: (T, 6) external wrench in fr3_link0, N and N m.
        q: (T, 7) joints, rad.
    """

    time_s: NDArray[np.float64]
    ee: NDArray[np.float64]
    width: NDArray[np.float64]
    opening: NDArray[np.float64]
    holding: NDArray[np.bool_]
    wrench: NDArray[np.float64]
    q: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True)
class Frames:
    """Small pictures, F rows.

    Attributes:
        step: (F,) index of the step at which each was exposed.
        color: uint8 (F, 120, 160, 3) RGB.
        depth: uint16 (F, 120, 160) mm, 0 unknown.
    """

    step: NDArray[np.int64]
    color: NDArray[np.uint8]
    depth: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True)
class InvocationTruth:
    """What was really invoked, for scoring only; ``begin_s`` and ``end_s`` on the clock of the steps."""

    family: str
    instruction: str
    object: str
    target: str
    position: tuple[float, float, float] | None
    angle: float | None
    begin_s: float
    end_s: float
    outcome: str


@dataclass(frozen=True)
class EpisodeTruth:
    """The simulation's truth, for scoring only.

    Attributes:
        invocations: in order.
        names: of the objects.
        poses: (T, n, 7) x y z qx qy qz qw of their centres at each step.
    """

    invocations: tuple[InvocationTruth, ...]
    names: tuple[str, ...]
    poses: NDArray[np.float64]


@dataclass(frozen=True)
class Episode:
    """One demonstration.

    Attributes:
        instruction: what the whole demonstration does.
        source: ``sim`` or ``bag``.
        steps, frames: what was measured.
        intrinsics: of the small pictures.
        camera_to_base: pose of the optical frame in fr3_link0, as calibrated.
        info: further entries of ``episode.json`` (seed, scene, task, commit).
    """

    instruction: str
    source: str
    steps: Steps
    frames: Frames
    intrinsics: Intrinsics
    camera_to_base: Pose
    info: dict[str, Any] = field(default_factory=dict)


def write_episode(folder: Path, episode: Episode, truth: EpisodeTruth | None = None) -> None:
    """Write a folder, complete or not at all. Replaces an older one of that name."""
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    inner = episode.intrinsics
    camera = {
        "width": inner.width, "height": inner.height, "fx": inner.fx, "fy": inner.fy, "cx": inner.cx, "cy": inner.cy,
        "camera_to_base": [*map(float, episode.camera_to_base.position), *map(float, episode.camera_to_base.quat_xyzw)],
    }  # fmt: skip
    info = {"format": FORMAT, "instruction": episode.instruction, "source": episode.source, "dt_s": STEP_S, "camera": camera}
    (part / INFO).write_text(json.dumps({**episode.info, **info}, indent=1) + "\n")
    np.savez_compressed(part / STEPS, **{item.name: getattr(episode.steps, item.name) for item in fields(Steps)})
    np.savez_compressed(part / FRAMES, **{item.name: getattr(episode.frames, item.name) for item in fields(Frames)})
    if truth is not None:
        rows = [asdict(invocation) for invocation in truth.invocations]
        (part / TRUTH).write_text(json.dumps({"invocations": rows, "names": list(truth.names)}, indent=1) + "\n")
        np.savez_compressed(part / TRUTH_POSES, poses=truth.poses.astype(np.float32))
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def read_episode(folder: Path) -> Episode:
    """Read a folder.

    Raises:
        EpisodeError: it is not an episode, or of another format.
    """
    info = read_info(folder)
    camera = info["camera"]
    pose = np.array(camera["camera_to_base"])
    return Episode(
        instruction=info["instruction"],
        source=info["source"],
        steps=Steps(**_arrays(folder / STEPS)),
        frames=Frames(**_arrays(folder / FRAMES)),
        intrinsics=Intrinsics(*(camera[key] for key in ("width", "height", "fx", "fy", "cx", "cy"))),
        camera_to_base=Pose(pose[:3], pose[3:]),
        info=info,
    )


def read_info(folder: Path) -> dict[str, Any]:
    """``episode.json``. Raises EpisodeError."""
    try:
        info: dict[str, Any] = json.loads((folder / INFO).read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise EpisodeError(f"{folder} is no episode ({error}): collect with `vlatools collect`, or import a trial's bag") from error
    if info.get("format") != FORMAT:
        raise EpisodeError(f"{folder} has format {info.get('format')}, this version reads {FORMAT}: collect it again")
    return info


def read_truth(folder: Path) -> EpisodeTruth | None:
    """The truth of a simulated episode, None where there is none."""
    if not (folder / TRUTH).is_file():
        return None
    raw = json.loads((folder / TRUTH).read_text())
    rows = (
        InvocationTruth(**{**row, "position": tuple(row["position"]) if row["position"] is not None else None})
        for row in raw["invocations"]
    )
    return EpisodeTruth(tuple(rows), tuple(raw["names"]), _arrays(folder / TRUTH_POSES)["poses"].astype(float))


def episode_folders(root: Path) -> Iterator[Path]:
    """All episode folders in ``root``, by name."""
    return (path.parent for path in sorted(root.glob(f"*/{INFO}")) if not path.parent.name.startswith("."))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path) as data:
            return {key: data[key] for key in data.files}
    except (OSError, ValueError) as error:
        raise EpisodeError(f"{path} cannot be read ({error}): the episode is broken, delete its folder") from error
