"""Stages of an invocation: legs along a path, closing and opening, looking. Each is judged by measured state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vlatools.core.pose import wrap_angle
from vlatools.policy.analytic.config import AnalyticConfig
from vlatools.policy.analytic.path import ToolPath, tool_vector, vector_quat
from vlatools.policy.ports import Observation

Vector = NDArray[np.float64]

_TRIM_AFTER_S = 0.25  # a standing error is trimmed this long after the path's end
_TRIM_MAX = 0.02  # m
_LEAD, _LEAD_S = 0.05, 0.15  # m, s: how far the path may run ahead of the tool
_HOLD_S = 0.12  # a hold counts after this time
_LOST_S = 0.25  # a hold counts as lost after this time
_STUCK_S = 1.8  # fingers that are busy but stand still for this time are stuck


@dataclass(frozen=True)
class StageStep:
    """What a stage makes of an observation.

    Attributes:
        share: of the stage done, 0 to 1, measured.
        done: the stage is over.
        failed: why it can never be, "" otherwise.
        then: stages to be put in after this one.
    """

    share: float
    done: bool
    failed: str = ""
    then: Sequence[Stage] = ()


@dataclass
class Anchor:
    """Where the stage before left the tool: commanded tool vector (7,) and gripper opening, m."""

    tool: Vector
    opening: float


class Stage(Protocol):
    """One stage."""

    phase: str
    weight: float

    def enter(self, observation: Observation, anchor: Anchor) -> None:
        """Begin."""
        ...

    def needs_frame(self) -> bool:
        """The next step wants a camera frame."""
        ...

    def step(self, observation: Observation) -> StageStep:
        """Judge the measured state."""
        ...

    def rows(self, times: Vector) -> Vector:
        """Targets (N, 8) at times (N,)."""
        ...

    def anchor(self) -> Anchor:
        """Where it leaves the tool."""
        ...


@dataclass(frozen=True)
class Waypoint:
    """A tool vector (7,) to pass; ``speed`` in m/s replaces the pace's, ``blend`` rounds the corner before it."""

    tool: Vector
    speed: float | None = None
    blend: bool = True


@dataclass
class Leg:
    """Motion through way-points.

    Attributes:
        phase, weight: see Stage.
        build: way-points from where the tool is (7,).
        config: settings.
        must_hold: losing the hold ends the invocation.
        stop_force: change of the vertical force that ends the leg as done, N, or None.
        look: called once with a frame on the way; gives the shift (7,) of the goal or None.
        look_share: share of the leg's time after which it looks.
        reopen: gripper opening for the leg's second half, or None.
    """

    phase: str
    weight: float
    build: Callable[[Vector], Sequence[Waypoint]]
    config: AnalyticConfig
    must_hold: bool = False
    stop_force: float | None = None
    look: Callable[[Observation], Vector | None] | None = None
    look_share: float = 0.35
    reopen: float | None = None
    touched: bool = field(default=False, init=False)
    _path: ToolPath = field(init=False)
    _target: Vector = field(init=False)

    def enter(self, observation: Observation, anchor: Anchor) -> None:
        self._opening = anchor.opening
        self._held_s = observation.arm.stamp_s
        self._force = float(observation.arm.wrench[2])
        self._looked = self.look is None
        self._last_s = observation.arm.stamp_s
        self._plan(anchor.tool, observation.arm.stamp_s)

    def needs_frame(self) -> bool:
        if self._looked:
            return False
        return self._last_s >= self._path.start_s + self.look_share * (self._path.end_s - self._path.start_s)

    def step(self, observation: Observation) -> StageStep:
        arm, now = observation.arm, observation.arm.stamp_s
        self._last_s = now
        if arm.gripper_holding:
            self._held_s = now
        elif self.must_hold and now - self._held_s > _LOST_S:
            return StageStep(0.0, False, f"the hold was lost at {1e3 * arm.gripper_width:.1f} mm opening")
        if not self._looked and observation.frame is not None:
            self._looked = True
            shift = self.look(observation) if self.look is not None else None
            if shift is not None:
                self._path.shift(shift, now)
                self._target = self._target + shift
        measured = tool_vector(arm.ee)
        share, away = self._path.project(measured)
        if away > self.config.off_path:
            self._plan(measured, now)  # pushed off its way: go on from where the tool is
            return StageStep(0.0, False)
        self._path.wait_for(measured, now, _LEAD, _LEAD_S)
        if self.stop_force is not None and now > self._path.start_s + 0.1:
            self.touched = self.touched or abs(float(arm.wrench[2]) - self._force) > self.stop_force
            if self.touched:
                self._path.cut(now)
                return StageStep(1.0, True)
        error = self._target - measured
        error[3] = wrap_angle(float(error[3]))
        near = float(np.linalg.norm(error[:3])) <= self.config.position_tolerance
        turned = float(np.linalg.norm(error[3:])) <= self.config.turn_tolerance
        arrived = now >= self._path.end_s - 0.02 and near and turned
        if not arrived and now >= self._path.end_s + _TRIM_AFTER_S:
            self._trim(error, now)
        return StageStep(1.0 if arrived else min(0.98, share), arrived)

    def rows(self, times: Vector) -> Vector:
        opening = np.full((len(times), 1), self._opening)
        if self.reopen is not None:
            opening[times > 0.5 * (self._path.start_s + self._path.end_s)] = self.reopen
        return np.hstack([self._path.poses(times), opening])

    def anchor(self) -> Anchor:
        return Anchor(np.array(self._path.goal), self._opening if self.reopen is None else self.reopen)

    @property
    def goal(self) -> Vector:
        """Where the leg shall end, tool vector (7,)."""
        return self._target

    def _plan(self, here: Vector, now: float) -> None:
        self._path = ToolPath(here, now, self.config.pace)
        for waypoint in self.build(here):
            self._path.go(waypoint.tool, waypoint.speed, waypoint.blend)
        self._target = np.array(self._path.goal)

    def _trim(self, error: Vector, now: float) -> None:
        """Shift the command by the standing error, so that a soft arm still gets there; bounded."""
        shift = np.where(np.arange(7) < 4, error, 0.0)
        offset = self._path.goal[:3] + shift[:3] - self._target[:3]
        if float(np.linalg.norm(offset)) <= _TRIM_MAX:
            self._path.shift(shift, now)


class _Fingers:
    """Watches fingers that should move."""

    def __init__(self, observation: Observation) -> None:
        self._width = _opening(observation)
        self._moved_s = observation.arm.stamp_s

    def stuck(self, observation: Observation) -> str:
        """Why they are judged stuck, "" if they are not."""
        width, now = _opening(observation), observation.arm.stamp_s
        if abs(width - self._width) > 5e-4 or not observation.arm.gripper_busy:
            self._width, self._moved_s = width, now
        if now - self._moved_s < _STUCK_S:
            return ""
        return f"the gripper does not move: busy at {1e3 * width:.1f} mm for {_STUCK_S:.1f} s, check the gripper"


@dataclass
class Close:
    """Close the fingers where the tool is.

    Attributes:
        expected: opening with the object between the fingers, m.
        empty: nothing is to be held: done when the fingers have met.
        on_done: called with the observation once the stage is done.
    """

    phase: str
    weight: float
    expected: float
    empty: bool = False
    on_done: Callable[[Observation], None] | None = None

    def enter(self, observation: Observation, anchor: Anchor) -> None:
        self._tool = anchor.tool
        self._first = _opening(observation)
        self._fingers = _Fingers(observation)
        self._since: float | None = None

    def needs_frame(self) -> bool:
        return False

    def step(self, observation: Observation) -> StageStep:
        arm, width = observation.arm, _opening(observation)
        way = max(1e-3, self._first - self.expected)
        share = float(np.clip((self._first - width) / way, 0.0, 1.0))
        if self.empty:
            done = width < 0.006 or (share > 0.5 and not arm.gripper_busy)
            return StageStep(share, done)
        if not arm.gripper_holding:
            self._since = None
            return StageStep(0.8 * share, False, self._fingers.stuck(observation))
        if self._since is None:
            self._since = arm.stamp_s
        done = arm.stamp_s - self._since >= _HOLD_S
        if done and self.on_done is not None:
            self.on_done(observation)
        return StageStep(1.0 if done else 0.9, done)

    def rows(self, times: Vector) -> Vector:
        return _still(self._tool, 0.0, times)

    def anchor(self) -> Anchor:
        return Anchor(self._tool, 0.0)


@dataclass
class Open:
    """Open the fingers where the tool is, by ``by`` metres or to ``to``."""

    phase: str
    weight: float
    by: float | None = None
    to: float = 0.08

    def enter(self, observation: Observation, anchor: Anchor) -> None:
        self._tool = anchor.tool
        self._first = _opening(observation)
        self._fingers = _Fingers(observation)
        self._goal = self.to if self.by is None else min(self.to, self._first + self.by)

    def needs_frame(self) -> bool:
        return False

    def step(self, observation: Observation) -> StageStep:
        width = _opening(observation)
        way = max(1e-3, self._goal - self._first)
        share = float(np.clip((width - self._first) / way, 0.0, 1.0))
        done = width >= self._goal - 0.007 and not observation.arm.gripper_holding
        return StageStep(1.0 if done else min(share, 0.95), done, "" if done else self._fingers.stuck(observation))

    def rows(self, times: Vector) -> Vector:
        return _still(self._tool, self._goal, times)

    def anchor(self) -> Anchor:
        return Anchor(self._tool, self._goal)


@dataclass
class Keep:
    """Stand still with what is held already."""

    phase: str
    weight: float

    def enter(self, observation: Observation, anchor: Anchor) -> None:
        self._anchor = anchor

    def needs_frame(self) -> bool:
        return False

    def step(self, observation: Observation) -> StageStep:
        if not observation.arm.gripper_holding:
            return StageStep(0.0, False, f"the object slipped: opening {1e3 * observation.arm.gripper_width:.1f} mm")
        return StageStep(1.0, True)

    def rows(self, times: Vector) -> Vector:
        return _still(self._anchor.tool, self._anchor.opening, times)

    def anchor(self) -> Anchor:
        return self._anchor


@dataclass
class Look:
    """Stand still, take a frame, and decide what follows.

    Attributes:
        decide: from the frame: more stages, none when the goal is reached, or why it cannot be.
    """

    phase: str
    weight: float
    decide: Callable[[Observation], Sequence[Stage] | str]

    def enter(self, observation: Observation, anchor: Anchor) -> None:
        self._anchor = anchor
        self._since = observation.arm.stamp_s

    def needs_frame(self) -> bool:
        return True

    def step(self, observation: Observation) -> StageStep:
        # The frame must show what was left behind, not the arm still on its way.
        if observation.frame is None or observation.frame.stamp_s < self._since:
            return StageStep(0.0, False)
        decided = self.decide(observation)
        return StageStep(0.0, False, decided) if isinstance(decided, str) else StageStep(1.0, True, then=decided)

    def rows(self, times: Vector) -> Vector:
        return _still(self._anchor.tool, self._anchor.opening, times)

    def anchor(self) -> Anchor:
        return self._anchor


def _opening(observation: Observation) -> float:
    width = observation.arm.gripper_width
    return width if math.isfinite(width) else 0.0


def _still(tool: Vector, opening: float, times: Vector) -> Vector:
    return np.tile(np.concatenate([tool[:3], vector_quat(tool), [opening]]), (len(times), 1))
