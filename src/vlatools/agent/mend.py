"""How the plan library mends a plan: undo what is in the way, redo what came undone, go on from what is held."""

from __future__ import annotations

from dataclasses import replace

from vlatools.agent.effects import Effect, EffectKind
from vlatools.agent.layout import Layout, Point3
from vlatools.agent.plan import Place, Stage
from vlatools.agent.stages import hold_stage, put_stage
from vlatools.agent.state import AgentState
from vlatools.core import Rejected

MAX_HELPERS = 6


class Mender:
    """Makes the remaining stages anew from the newest layout. The instruction is not read again: the goals stay."""

    def __init__(self, state: AgentState, layout: Layout, broken: tuple[Stage, ...], reached: set[Effect]) -> None:
        """``broken``: reached stages whose effect no longer holds; ``reached``: effects that hold already."""
        self._state = state
        self._layout = layout
        self._broken = broken
        self._reached = reached
        self._helped: list[str] = []
        places = [stage.place for stage in (*state.plan.stages, *broken) if stage.place is not None]
        self._reserved: list[Point3] = [place.point for place in places if place.point is not None]

    def mend(self) -> tuple[Stage, ...]:
        """Remaining stages. Raises Rejected(``impossible``) when a blocked place cannot be cleared."""
        held = self._state.held
        remaining = self._state.plan.stages
        stages: list[Stage] = []
        if held and remaining and remaining[0].object == held:
            stages += self._go_on(remaining[0])
            remaining = remaining[1:]
        for stage in self._broken:
            stages += self._prepare(stage)
        for position, stage in enumerate(remaining):
            # Only the next stage meets the table as it is now; later ones meet what the stages before leave.
            if stage.effect in self._reached:
                stages.append(_restep(stage, held=False, done=True))
            elif position == 0:
                stages += self._prepare(stage)
            else:
                stages.append(_restep(stage))
        # What had to be put aside although it stood where it belonged goes back there.
        stages += [_restep(stage) for stage in self._state.lasting() if stage.object in self._helped]
        return tuple(stages)

    def _go_on(self, stage: Stage) -> list[Stage]:
        """The object is in the gripper: move and release are left, unless its place is taken."""
        if stage.place is None or not self._layout.blockers(stage.object, stage.place):
            return [_restep(stage, held=True)]
        aside = self._aside(stage.object, stage.index, held=True)
        return [aside, *self._prepare(stage)]

    def _prepare(self, stage: Stage) -> list[Stage]:
        """The stage with whatever must be cleared before it."""
        helpers: list[Stage] = []
        for name in self._obstacles(stage):
            helpers += self._clear(name, stage.index)
        if stage.place is not None:
            self._layout.put(stage.object, stage.place)
        return [*helpers, _restep(stage)]

    def _obstacles(self, stage: Stage) -> list[str]:
        above = [] if self._is_bowl(stage.object) else self._layout.on(stage.object)
        blockers = [] if stage.place is None else self._layout.blockers(stage.object, stage.place)
        return list(dict.fromkeys(above + blockers))

    def _clear(self, name: str, index: int) -> list[Stage]:
        """Put an object aside, first whatever lies on it."""
        if len(self._helped) >= MAX_HELPERS:
            raise Rejected("impossible", f"more than {MAX_HELPERS} objects are in the way: tidy the table by hand")
        above: list[Stage] = []
        if not self._is_bowl(name):
            for other in self._layout.on(name):
                above += self._clear(other, index)
        return [*above, self._aside(name, index)]

    def _aside(self, name: str, index: int, *, held: bool = False) -> Stage:
        place: Place | None = self._layout.free_place(name, self._reserved)
        if place is None:
            raise Rejected(
                "impossible",
                f"there is no free place to put the {name} out of the way: tidy the table by hand",
            )
        self._helped.append(name)
        self._layout.put(name, place)
        return put_stage(name, place, index, held=held, lasting=False)

    def _is_bowl(self, name: str) -> bool:
        item = self._state.memory.get(name)
        return item is not None and item.category == "bowl"


def _restep(stage: Stage, *, held: bool = False, done: bool = False) -> Stage:
    """The stage with the steps that are needed from here."""
    if done:
        return replace(stage, steps=())
    if stage.effect is not None and stage.effect.kind is EffectKind.HELD:
        return hold_stage(stage.object, stage.index, held=held)
    if stage.place is None:
        return stage
    return put_stage(stage.object, stage.place, stage.index, held=held, lasting=stage.lasting)
