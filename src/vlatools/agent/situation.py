"""What a running task knows at this moment, and how it finds out: looking, judging, grounding."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vlatools.agent.config import AgentConfig
from vlatools.agent.effects import Effect, EffectCheck, EffectKind, Truth, check
from vlatools.agent.memory import Memory, Point
from vlatools.agent.plan import Place, PlaceKind, Plan, Step
from vlatools.agent.ports import Observe
from vlatools.agent.recovery import ArmKeeper
from vlatools.agent.state import AgentState, CallRecord
from vlatools.agent.voice import Voice
from vlatools.core import Family, Invocation
from vlatools.robot.ports import ArmState

UNKNOWN_OBJECT = "?"  # something is held, and nobody knows what
_BOWL_FLOOR_M = 0.004
_GRIP = frozenset({EffectKind.HELD, EffectKind.NOT_HELD})


class Situation:
    """Owns the AgentState of a run. ``begin`` must come first; only ``void`` and ``history`` work before it."""

    def __init__(
        self, observe: Observe, keeper: ArmKeeper, config: AgentConfig, voice: Voice, guard: Callable[[], None]
    ) -> None:
        self._observe = observe
        self._keeper = keeper
        self._config = config
        self._voice = voice
        self._guard = guard
        self._state: AgentState | None = None

    @property
    def state(self) -> AgentState:
        """The agent's state."""
        assert self._state is not None, "begin() comes first"
        return self._state

    @state.setter
    def state(self, state: AgentState) -> None:
        self._state = state

    @property
    def history(self) -> tuple[CallRecord, ...]:
        """Finished invocations."""
        return self._state.history if self._state is not None else ()

    def void(self) -> bool:
        """Make the rest of the plan void, so that nothing of it follows; True if there was any."""
        if self._state is None or not self._state.plan.stages:
            return False
        self._state = self._state.voided()
        return True

    def begin(self, instruction: str) -> None:
        """First observation: what is seen now is where things *were* later on."""
        arm = self._keeper.wait_ready()
        memory = Memory.begin(self._observe())
        self._guard()
        self.state = AgentState(instruction, memory, arm, "", Plan(0, ()))
        self._voice.observed(memory)

    def set_arm(self, arm: ArmState) -> None:
        """Take over a newer arm state; what is no longer held is no longer ours."""
        held = self.state.held if arm.gripper_holding else ""
        self.state = replace(self.state, arm=arm, held=held)

    def look(self) -> None:
        """Observe and update the memory."""
        self.set_arm(self._keeper.wait_ready())
        expected: dict[str, Point] = {}
        if self.state.held and self.state.held != UNKNOWN_OBJECT:
            expected[self.state.held] = self.state.arm.ee.position
        elif self.state.plan.stages and self.state.plan.stages[0].place is not None:
            stage = self.state.plan.stages[0]
            point = self.rest(stage.place) if stage.place is not None else None
            if point is not None:
                expected[stage.object] = np.asarray(point)
        scene = self._observe()
        self._guard()
        self.state = replace(self.state, memory=self.state.memory.update(scene, expected))
        self.set_arm(self._keeper.wait_ready())
        self._voice.observed(self.state.memory)

    def sees(self, name: str) -> bool:
        """Whether the object is in the newest scene; True for what is not tracked ("" or a planner's own words)."""
        item = self.state.memory.get(name)
        return item is None or item.visible

    def judge(self, effect: Effect) -> EffectCheck:
        """Judge an effect by what is known now."""
        return check(effect, self.state.memory, self.state.arm, self._config.tolerances)

    def judge_step(self, effect: Effect) -> EffectCheck:
        """By the arm's state and what was last seen; a doubt about places is settled by another look."""
        if effect.kind in _GRIP:
            self.set_arm(self._keeper.settle_grip(effect.kind is EffectKind.HELD))
            return self.judge(effect)
        self.set_arm(self._keeper.wait_ready())
        judged = self.judge(effect)
        if judged.truth is not Truth.TRUE:
            self.look()
            judged = self.judge(effect)
        return judged

    def judge_stage(self, effect: Effect) -> EffectCheck:
        """By another look; if the effect is not seen, retreat and look, then go home and look."""
        if effect.kind in _GRIP:
            return self.judge_step(effect)
        self.look()
        judged = self.judge(effect)
        if judged.truth is not Truth.TRUE:
            self._keeper.retreat()
            self.look()
            judged = self.judge(effect)
        if judged.truth is Truth.UNKNOWN:
            self._keeper.home()
            self.look()
            judged = self.judge(effect)
        return judged

    def nearest_to_gripper(self) -> str:
        """Id of what is in the gripper: what was grasped, unless it is seen elsewhere; else what is seen there."""
        arm, memory = self.state.arm, self.state.memory

        def near(name: str) -> Truth:
            return check(Effect(EffectKind.GRIPPER_NEAR, name), memory, arm, self._config.tolerances).truth

        last = next((r.result.invocation for r in reversed(self.state.history)), None)
        grasped = self.state.held
        if not grasped and last is not None and last.family is Family.GRASP and self.state.plan.stages:
            grasped = self.state.plan.stages[0].object
        if grasped and grasped != UNKNOWN_OBJECT and near(grasped) is not Truth.FALSE:
            return grasped
        close = [item.id for item in memory.objects if near(item.id) is Truth.TRUE]
        return close[0] if len(close) == 1 else UNKNOWN_OBJECT

    def rest(self, place: Place) -> tuple[float, float, float] | None:
        """The point on which the object's bottom shall rest, by what was last seen."""
        if place.kind is PlaceKind.AT:
            return place.point
        target = self.state.memory.get(place.target)
        if target is None:
            return None
        height = target.top if place.kind is PlaceKind.ON else self._config.table.height + _BOWL_FLOOR_M
        return (float(target.position[0]), float(target.position[1]), float(height))

    def ground(self, step: Step) -> Invocation:
        """The invocation, with current names and positions."""
        memory = self.state.memory
        names = {name: memory.name(name) for name in (step.object, step.target) if memory.get(name) is not None}
        text = step.instruction
        if names:
            pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
            text = re.sub(pattern, lambda found: names[found.group(0)], text)
        position = self.rest(step.place) if step.place is not None else None
        if step.family is Family.REACH and (item := memory.get(step.object)) is not None:
            position = (float(item.position[0]), float(item.position[1]), float(item.position[2]))
        return Invocation(
            family=step.family,
            instruction=text,
            object=names.get(step.object, step.object),
            target=names.get(step.target, step.target),
            position=None if position is None else np.asarray(position),
            plan_generation=self.state.generation,
        )
