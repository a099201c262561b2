"""The plan library: a deterministic planner. Parses, grounds in what is seen, expands into invocations, and mends."""

from __future__ import annotations

from vlatools.agent.config import AgentConfig
from vlatools.agent.effects import Truth, check
from vlatools.agent.events import LedgerEntry
from vlatools.agent.goals import (
    Beside,
    Goal,
    Hold,
    InBowl,
    OnTable,
    OnTop,
    PlaceRef,
    Put,
    RestoreAll,
    Side,
    WhereWas,
)
from vlatools.agent.language import parse
from vlatools.agent.layout import FREE_PLACE, Layout
from vlatools.agent.memory import Memory
from vlatools.agent.mend import Mender
from vlatools.agent.plan import Place, PlaceKind, Stage
from vlatools.agent.planner import PlannerReply, ReplanEvent
from vlatools.agent.reference import resolve, resolve_all
from vlatools.agent.stages import hold_stage, put_stage
from vlatools.agent.state import AgentState
from vlatools.core import Clock, Family, Rejected

_DIRECTIONS = {Side.LEFT: (0.0, 1.0), Side.RIGHT: (0.0, -1.0), Side.BEHIND: (1.0, 0.0), Side.FRONT: (-1.0, 0.0)}


class PlanLibrary:
    """Implements the Planner port without any model: no tokens, the same answer for the same scene."""

    name = "plan_library"

    def __init__(self, config: AgentConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock

    def plan(self, state: AgentState) -> PlannerReply:
        """Stages of the whole instruction.

        Raises:
            Rejected: ``not_understood``, ``unknown_object``, ``ambiguous`` or ``impossible``.
        """
        started = self._clock.now()
        stages = _Expansion(state.memory, self._config).expand(parse(state.instruction))
        return PlannerReply(stages, self._cost(started))

    def replan(self, state: AgentState, event: ReplanEvent) -> PlannerReply:
        """The remaining stages, mended after what happened.

        Raises:
            Rejected: ``attempts_exhausted`` (what is left failed too often), ``object_lost`` or ``impossible``.
        """
        started = self._clock.now()
        layout = Layout(state.memory, self._config.table, self._config.tolerances)
        broken = tuple(
            stage
            for stage in state.lasting()
            if stage.effect is not None
            and check(stage.effect, state.memory, state.arm, self._config.tolerances).truth is Truth.FALSE
        )
        reached = {
            stage.effect
            for stage in state.plan.stages[:1]
            if stage.effect is not None
            and check(stage.effect, state.memory, state.arm, self._config.tolerances).truth is Truth.TRUE
        }
        stages = Mender(state, layout, broken, reached).mend()
        for step in (step for stage in stages[:1] for step in stage.steps):
            if step.key in event.exhausted:
                raise Rejected(
                    "attempts_exhausted",
                    f"'{step.instruction}' failed too often and nothing else is known: {event.message}",
                )
            item = state.memory.get(step.object)
            if step.family is Family.REACH and item is not None and not item.visible:
                x, y = item.position[:2]
                raise Rejected(
                    "object_lost",
                    f"the {step.object} is gone, it was last seen at ({x:.2f}, {y:.2f}); seen: "
                    f"{state.memory.describe()}: put it back in view and run the task again",
                )
        return PlannerReply(stages, self._cost(started))

    def _cost(self, started: float) -> LedgerEntry:
        now = self._clock.now()
        return LedgerEntry(now, self.name, latency_s=now - started)


class _Expansion:
    """Plays the goals on the layout, one after the other, and writes a stage for each movement."""

    def __init__(self, memory: Memory, config: AgentConfig) -> None:
        self._memory = memory
        self._layout = Layout(memory, config.table, config.tolerances)
        self._start = Layout(memory, config.table, config.tolerances, first=True)
        self._stages: list[Stage] = []
        self._stacked: list[str] = [
            item.id for item in memory.objects if self._layout.place(item.id).kind is PlaceKind.ON
        ]

    def expand(self, goals: tuple[Goal, ...]) -> tuple[Stage, ...]:
        for index, goal in enumerate(goals):
            if isinstance(goal, RestoreAll):
                self._restore(index)
            elif isinstance(goal, Hold):
                self._hold(goal, index, last=index == len(goals) - 1)
            else:
                self._put(goal, index)
        if not self._stages:
            raise Rejected(
                "impossible", f"nothing was moved, there is nothing to restore; seen: {self._memory.describe()}"
            )
        return tuple(self._stages)

    def _hold(self, goal: Hold, index: int, last: bool) -> None:
        item = resolve(goal.object, self._memory)
        if not last:
            raise Rejected("impossible", f"the gripper would still hold the {item.id}: say where to put it first")
        self._require_clear(item.id)
        self._stages.append(hold_stage(item.id, index))

    def _put(self, goal: Put, index: int) -> None:
        if goal.object is None:
            names = [self._top_of_stack()]
        else:
            names = [item.id for item in resolve_all(goal.object, self._memory)]
        for name in names:
            self._require_clear(name)
            self._add(name, self._ground(name, goal.place), index)

    def _add(self, name: str, place: Place, index: int) -> None:
        self._stages.append(put_stage(name, place, index))
        self._layout.put(name, place)
        if place.kind is PlaceKind.ON:
            self._stacked.append(name)

    def _restore(self, index: int) -> None:
        """Bring back what was moved, the uppermost first."""
        moved = [item.id for item in self._memory.objects if self._layout.place(item.id) != self._start.place(item.id)]
        while moved:
            movable = [
                name
                for name in moved
                if not self._covered(name) and not self._layout.blockers(name, self._start.place(name))
            ]
            if not movable:
                raise Rejected(
                    "impossible", f"{', '.join(moved)} stand in each other's way: say the order in which to move them"
                )
            name = movable[0]
            self._add(name, self._back(name), index)
            self._layout.put(name, self._start.place(name))
            moved.remove(name)

    def _back(self, name: str) -> Place:
        place = self._start.place(name)
        return Place(place.kind, place.target, place.point, "back to where it was")

    # ---- places

    def _ground(self, name: str, place: PlaceRef) -> Place:
        if isinstance(place, InBowl):
            return self._in_bowl(name, resolve(place.bowl, self._memory).id)
        if isinstance(place, OnTop):
            target = resolve(place.support, self._memory)
            if target.category == "bowl":
                return self._in_bowl(name, target.id)
            return self._checked(name, Place(PlaceKind.ON, target.id))
        if isinstance(place, WhereWas):
            if place.ref is None:
                return self._checked(name, self._back(name))
            other = resolve(place.ref, self._memory).id
            was = self._start.place(other)
            return self._checked(name, Place(was.kind, was.target, was.point, f"to where the {other} was"))
        if isinstance(place, Beside):
            return self._beside(name, place)
        return self._off(name, place)

    def _in_bowl(self, name: str, bowl: str) -> Place:
        if self._memory[bowl].category != "bowl":
            raise Rejected("impossible", f"the {bowl} is no bowl, nothing can be put into it: say 'on the {bowl}'")
        if self._memory[name].category == "bowl":
            raise Rejected("impossible", f"the {name} does not fit into the {bowl}: only cubes are put into bowls")
        return self._checked(name, Place(PlaceKind.IN, bowl))

    def _beside(self, name: str, place: Beside) -> Place:
        other = resolve(place.ref, self._memory).id
        if other == name:
            raise Rejected("impossible", f"the {name} cannot stand next to itself: name another object")
        sides = _DIRECTIONS if place.side is Side.ANY else {place.side: _DIRECTIONS[place.side]}
        words = {Side.BEHIND: "behind", Side.FRONT: "in front of"}
        for side, direction in sides.items():
            found = self._layout.beside(name, other, direction)
            if found is not None:
                said = words.get(side, f"to the {side.value} of")
                return Place(found.kind, found.target, found.point, f"{said} the {other}")
        raise Rejected(
            "impossible", f"there is no free place next to the {other} on that side of the table: choose another side"
        )

    def _off(self, name: str, place: OnTable) -> Place:
        now = self._layout.place(name)
        if place.source is not None:
            source = resolve(place.source, self._memory).id
            if now.target != source:
                raise Rejected("impossible", f"the {name} will not be on or in the {source} then: nothing to take off")
        if now.kind is PlaceKind.AT:
            raise Rejected("impossible", f"the {name} stands on the table then: there is nothing to take it off")
        back = self._back(name)
        if back.kind is PlaceKind.AT and not self._layout.blockers(name, back):
            return back
        starts = [self._start.point(item.id) for item in self._memory.objects]
        free = self._layout.free_place(name, starts)
        if free is None:
            raise Rejected("impossible", f"there is no free place on the table for the {name}: say where to put it")
        return Place(free.kind, free.target, free.point, FREE_PLACE)

    def _checked(self, name: str, place: Place) -> Place:
        if place.target == name:
            raise Rejected("impossible", f"the {name} cannot be put on itself: name another object")
        blockers = self._layout.blockers(name, place)
        if blockers:
            where = f"on the {place.target}" if place.target else place.words
            raise Rejected(
                "impossible",
                f"the {blockers[0]} stands there, the {name} cannot go {where}: move the {blockers[0]} first",
            )
        return place

    def _covered(self, name: str) -> list[str]:
        return [] if self._memory[name].category == "bowl" else self._layout.on(name)

    def _require_clear(self, name: str) -> None:
        covered = self._covered(name)
        if covered:
            raise Rejected(
                "impossible", f"the {covered[0]} is on the {name} then: say 'take the {covered[0]} off' before"
            )

    def _top_of_stack(self) -> str:
        for name in reversed(self._stacked):
            if self._layout.place(name).kind is PlaceKind.ON and not self._layout.on(name):
                return name
        raise Rejected("impossible", f"nothing is stacked: say what to take off; seen: {self._memory.describe()}")
