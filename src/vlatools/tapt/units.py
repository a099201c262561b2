"""Invocation-aligned units x = (o, z, g, a, p*) as arrays for training: one sample a picture of a segment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import Intrinsics
from vlatools.core import Family, Outcome, Pose
from vlatools.policy.tiny import text
from vlatools.policy.tiny.transform import CENTER, DT, HORIZON, SPREAD, deltas, features
from vlatools.tapt.episode import STEP_S, Episode, Steps, read_episode, read_truth

_STRIDE = round(DT / STEP_S)
_HOLD_S, _STILL = 0.8, 0.002  # an invocation that is done is shown for so long, as long as nothing moves by more than 2 mm
_COLUMNS = ("color", "depth", "camera", "words", "family", "state", "position", "actions", "progress", "goals", "turn")
_FAMILIES = (Family.REACH, Family.GRASP, Family.MOVE, Family.RELEASE)


@dataclass(frozen=True)
class Segment:
    """One labelled segment: steps ``begin`` to ``end``, end exclusive; ``position`` as given to the tool, m."""

    family: Family
    instruction: str
    begin: int
    end: int
    position: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Samples:
    """N samples.

    Attributes:
        color: uint8 (N, 120, 160, 3). depth: uint16 (N, 120, 160) mm. camera: (N, 7) pose of the optical frame in fr3_link0.
        words: (N, MAX_TOKENS). family: (N,) index into ``families``. state: (N, 14). position: (N, 4).
        actions: (N, H, 6). progress: (N,).
        goals: (N, 3, 3) m, where object, place and gripper are for this invocation, in hindsight; NaN where it says nothing.
        turn: (N, 2) cosine and sine of twice the tool's yaw at the end.
        intrinsics: of all pictures. families: names.
    """

    color: NDArray[np.uint8]
    depth: NDArray[np.uint16]
    camera: NDArray[np.float64]
    words: NDArray[np.int64]
    family: NDArray[np.int64]
    state: NDArray[np.float32]
    position: NDArray[np.float32]
    actions: NDArray[np.float32]
    progress: NDArray[np.float32]
    goals: NDArray[np.float32]
    turn: NDArray[np.float32]
    intrinsics: Intrinsics
    families: tuple[Family, ...] = _FAMILIES

    def __len__(self) -> int:
        return len(self.progress)


def truth_segments(folder: Path, episode: Episode) -> list[Segment]:
    """Completed invocations of a simulated episode, as they were called."""
    truth = read_truth(folder)
    begin = episode.steps.time_s[0]
    out = []
    for row in truth.invocations if truth is not None else ():
        first, last = (round((at - begin) / STEP_S) for at in (row.begin_s, row.end_s))
        last = min(last, len(episode.steps))
        if row.outcome == Outcome.COMPLETED.value and last - first >= 4:
            position = None if row.target else row.position
            out.append(Segment(Family(row.family), row.instruction, max(0, first), last, position))
    return out


def load_samples(folders: Iterable[Path]) -> Samples:
    """All samples of the episodes. Raises EpisodeError; ValueError when there is none."""
    rows: list[tuple[object, ...]] = []
    intrinsics: Intrinsics | None = None
    for folder in folders:
        episode = read_episode(folder)
        intrinsics = episode.intrinsics
        for segment in truth_segments(folder, episode):
            rows += _samples_of(episode, segment)
    if intrinsics is None or not rows:
        raise ValueError("no samples: the episodes hold no completed invocation")
    columns: dict[str, Any] = {name: np.array(column) for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=True)}
    return Samples(**columns, intrinsics=intrinsics)


def _samples_of(episode: Episode, segment: Segment) -> list[tuple[object, ...]]:
    steps, frames = episode.steps, episode.frames
    last = segment.end - 1
    state = np.column_stack([steps.ee, steps.width, steps.holding, steps.opening, steps.wrench[:, 2]])
    camera = np.concatenate([episode.camera_to_base.position, episode.camera_to_base.quat_xyzw])
    position = np.zeros(4, np.float32)
    if segment.position is not None:
        position[:] = [*((np.array(segment.position) - CENTER) / SPREAD), 1.0]
    yaw = Pose(steps.ee[last, :3], steps.ee[last, 3:]).yaw
    turn = np.array([np.cos(2 * yaw), np.sin(2 * yaw)], np.float32)
    out: list[tuple[object, ...]] = []
    for index in np.flatnonzero((frames.step >= segment.begin) & (frames.step <= _rest(steps, last))):
        t = int(frames.step[index])
        future = np.minimum(t + _STRIDE * np.arange(1, HORIZON + 1), last)
        targets = np.column_stack([steps.ee[future], steps.opening[future]])
        elapsed = steps.time_s[t] - steps.time_s[segment.begin]
        out.append(
            (
                frames.color[index], frames.depth[index], camera, text.tokens(segment.instruction),
                _FAMILIES.index(segment.family), features(state[t], state[segment.begin], elapsed), position,
                deltas(Pose(steps.ee[t, :3], steps.ee[t, 3:]), targets), min(1.0, (t - segment.begin) / (last - segment.begin)),
                _goals(segment.family, steps.ee[:, :3], segment.begin, t, last), turn,
            )
        )  # fmt: skip
    return out


def _rest(steps: Steps, last: int) -> int:
    """The last step, at most ``_HOLD_S`` later, at which the hand still is as it was at ``last``: frames of an invocation that is done."""
    after = slice(last, min(last + round(_HOLD_S / STEP_S) + 1, len(steps)))
    away = np.linalg.norm(steps.ee[after, :3] - steps.ee[last, :3], axis=1) > _STILL
    moved = np.flatnonzero(away | (np.abs(steps.opening[after] - steps.opening[last]) > _STILL))
    return last + (int(moved[0]) - 1 if len(moved) else len(away) - 1)


def _goals(family: Family, tool: NDArray[np.float64], begin: int, now: int, last: int) -> NDArray[np.float32]:
    """Object, place and gripper (3, 3) in hindsight: where the hand went is where they were."""
    unknown = np.full(3, np.nan)
    object_, place = {
        Family.REACH: (tool[last], unknown),
        Family.GRASP: (tool[begin], unknown),
        Family.MOVE: (tool[now], tool[last]),
        Family.RELEASE: (tool[begin], tool[begin]),
    }[family]
    return np.array([object_, place, tool[now]], np.float32)


def split(folders: Sequence[Path], held_out: int = 20) -> tuple[list[Path], list[Path]]:
    """Every ``held_out``-th episode is kept for validation."""
    return [f for i, f in enumerate(folders) if i % held_out], list(folders[::held_out])
