"""Collects demonstrations in the lock-step simulation: whole tasks, as a person would show them, with their recoveries."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vlatools.agent.budget import TaskBudget
from vlatools.agent.config import AgentConfig
from vlatools.agent.library import PlanLibrary
from vlatools.agent.runner import TaskRunner
from vlatools.camera.ports import Intrinsics
from vlatools.config import find_config, load
from vlatools.core import CancelToken, Family, Invocation, InvocationResult, VlatoolsError
from vlatools.policy.picture import reduce_frame
from vlatools.robot.ports import MoveTo
from vlatools.sim.assembly import LockstepStack, StackConfig
from vlatools.sim.fate import DISTURBANCES, Fate
from vlatools.tapt.demonstrator import Demonstrator, temper
from vlatools.tapt.episode import (
    FRAME_S,
    STEP_S,
    Episode,
    EpisodeTruth,
    Frames,
    InvocationTruth,
    Steps,
    write_episode,
)
from vlatools.tapt.scenes import TASKS, Request, random_request, task_request

_AFTER_S = 0.4  # the recording goes on after the task
_DISTURBED = 0.2  # share of demonstrations in which something goes wrong and is mended
_START = ((0.36, 0.60), (-0.20, 0.20), (0.25, 0.45))  # where the hand may start, m


class DemonstrationFailed(VlatoolsError):
    """The task was not done; there is nothing to show."""


def request_of(seed: int, kind: str) -> Request:
    """What demonstration ``seed`` shows. ``kind``: a task's name, ``random``, or ``mixed`` (half of each)."""
    rng = np.random.default_rng([seed, 31])
    if kind == "mixed":
        kind = str(rng.choice(TASKS)) if rng.random() < 0.5 else "random"
    return random_request(rng) if kind == "random" else task_request(kind, rng)


def demonstrate(folder: Path, seed: int, kind: str = "mixed") -> None:
    """Show one task and write the episode.

    Raises:
        DemonstrationFailed: it did not come to a good end.
    """
    rng = np.random.default_rng([seed, 47])
    request = request_of(seed, kind)
    shipped = StackConfig.shipped()
    stack = LockstepStack(request.scene, seed, dataclasses.replace(shipped, analytic=temper(shipped.analytic, rng)))
    try:
        person = Demonstrator(stack.tools.policy, rng)
        stack.tools.policy = person
        if rng.random() < 0.5:
            stack.arm.run(MoveTo(np.array([rng.uniform(*limits) for limits in _START])))
        disturb = str(rng.choice(DISTURBANCES[1:])) if rng.random() < _DISTURBED else DISTURBANCES[0]
        tape = _Tape(stack, person)
        tools = _Tools(stack, tape, Fate(disturb, stack.lab, rng))
        config = load(AgentConfig, find_config("planner.yaml"))
        runner = TaskRunner(PlanLibrary(config, stack.clock), tools, stack.observe, stack.arm, stack.clock, config)
        result = runner.run(request.instruction, TaskBudget(time_limit_s=request.time_limit_s))
        stack.clock.sleep(_AFTER_S)
        tape.stop()
        if not result.verified:
            raise DemonstrationFailed(f"seed {seed} ({request.instruction}): {result.outcome} {result.reason}: {result.message}")
        info = {"seed": seed, "scene": request.scene.name, "task": request.task, "disturbed": tools.fate.done}
        episode = Episode(
            request.instruction, "sim", tape.steps(), tape.frames(), tape.intrinsics, stack.lab.camera_to_base, info
        )
        write_episode(folder, episode, EpisodeTruth(tuple(tools.truth), stack.lab.world.instance.names, np.array(tape.poses)))
    finally:
        stack.close()


class _Tools:
    """The tools that the planner calls; what was called is the truth of the episode. Implements the agent's Tools port."""

    def __init__(self, stack: LockstepStack, tape: _Tape, fate: Fate) -> None:
        self._stack = stack
        self._tape = tape
        self.fate = fate
        self.truth: list[InvocationTruth] = []

    def invoke(self, invocation: Invocation, cancel: CancelToken, on_feedback: object = None) -> InvocationResult:
        """Run it, perhaps disturbed."""
        delay = self.fate.delay(invocation.family, invocation.object)
        if delay is not None:
            self._stack.clock.at(delay, lambda: self.fate.strike(invocation.object, invocation.target, invocation.instruction))
        begin_s, count = self._stack.clock.now(), len(self._tape.person.begun)
        result = self._stack.invoke(invocation, cancel)
        begun = self._tape.person.begun[count] if len(self._tape.person.begun) > count else None
        if begun is not None and invocation.family is Family.RELEASE and math.isfinite(begun.open_s):
            begin_s = begun.open_s  # letting down belongs to the move, by the families' definitions
            if self.truth and self.truth[-1].family == Family.MOVE.value:
                self.truth[-1] = dataclasses.replace(self.truth[-1], end_s=begin_s)
        place = invocation.position
        self.truth.append(
            InvocationTruth(
                invocation.family.value,
                invocation.instruction,
                invocation.object,
                invocation.target,
                None if place is None else (float(place[0]), float(place[1]), float(place[2])),
                invocation.angle,
                begin_s,
                self._stack.clock.now(),
                str(result.outcome.value),
            )
        )
        return result


@dataclass
class _Tape:
    """Records the ports at 20 Hz, and the camera at 4 Hz."""

    stack: LockstepStack
    person: Demonstrator
    rows: list[tuple[object, ...]] = field(default_factory=list)
    pictures: list[tuple[int, NDArray[np.uint8], NDArray[np.uint16]]] = field(default_factory=list)
    poses: list[list[NDArray[np.float64]]] = field(default_factory=list)
    running: bool = True

    def __post_init__(self) -> None:
        self.intrinsics: Intrinsics = reduce_frame(self.stack.camera.latest(1.0)).intrinsics
        self.stack.clock.every(STEP_S, self._step)

    def stop(self) -> None:
        """Record no more."""
        self.running = False

    def steps(self) -> Steps:
        """All states."""
        time_s, ee, width, opening, holding, wrench, q = (np.array(column) for column in zip(*self.rows, strict=True))
        return Steps(time_s, ee, width, opening, holding, wrench, q)

    def frames(self) -> Frames:
        """All pictures."""
        step, color, depth = (np.array(column) for column in zip(*self.pictures, strict=True))
        return Frames(step, color, depth)

    def _step(self) -> None:
        if not self.running:
            return
        state, now = self.stack.arm.state(), self.stack.clock.now()
        if len(self.rows) % round(FRAME_S / STEP_S) == 0:
            picture = reduce_frame(self.stack.camera.latest(1.0))
            self.pictures.append((len(self.rows), picture.color, picture.depth))
        pose = np.concatenate([state.ee.position, state.ee.quat_xyzw])
        self.rows.append((now, pose, state.gripper_width, self.person.opening(now), state.gripper_holding, state.wrench, state.q))
        objects = self.stack.lab.truth().objects
        self.poses.append([np.concatenate([thing.pose.position, thing.pose.quat_xyzw]) for thing in objects.values()])
