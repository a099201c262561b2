"""A goal as four invocations: reach, grasp, move, release, each with the effect that is expected of it."""

from __future__ import annotations

from vlatools.agent.effects import Effect, EffectKind
from vlatools.agent.plan import Place, PlaceKind, Stage, Step
from vlatools.core import Family


def put_effect(name: str, place: Place) -> Effect:
    """The effect that says that ``name`` rests at ``place``."""
    if place.kind is PlaceKind.IN:
        return Effect(EffectKind.IN_BOWL, name, place.target)
    if place.kind is PlaceKind.ON:
        return Effect(EffectKind.ON_TOP, name, place.target)
    return Effect(EffectKind.AT_POSITION, name, point=place.point)


def put_stage(name: str, place: Place, index: int, *, held: bool = False, lasting: bool = True) -> Stage:
    """Bring an object to a place: 4 invocations, or 2 when it is already in the gripper."""
    return Stage(
        text=_text(name, place),
        object=name,
        steps=(() if held else _pick(name)) + _bring(name, place),
        effect=put_effect(name, place),
        place=place,
        index=index,
        lasting=lasting,
    )


def hold_stage(name: str, index: int, *, held: bool = False) -> Stage:
    """Pick an object up and keep it: 2 invocations."""
    effect = Effect(EffectKind.HELD, name)
    return Stage(f"hold the {name}", name, () if held else _pick(name), effect, index=index)


def _pick(name: str) -> tuple[Step, ...]:
    return (
        Step(Family.REACH, f"reach the {name}", name, effect=Effect(EffectKind.GRIPPER_NEAR, name)),
        Step(Family.GRASP, f"grasp the {name}", name, effect=Effect(EffectKind.HELD, name)),
    )


def _bring(name: str, place: Place) -> tuple[Step, ...]:
    move, release = {
        PlaceKind.IN: (f"move the {name} above the {place.target}", f"release the {name} into the {place.target}"),
        PlaceKind.ON: (f"move the {name} on top of the {place.target}", f"release the {name} on the {place.target}"),
        PlaceKind.AT: (f"move the {name} {place.words}", f"release the {name}"),
    }[place.kind]
    return (
        Step(Family.MOVE, move, name, place.target, place, Effect(EffectKind.HELD, name)),
        Step(Family.RELEASE, release, name, place.target, place, Effect(EffectKind.NOT_HELD, name)),
    )


def _text(name: str, place: Place) -> str:
    if place.kind is PlaceKind.IN:
        return f"put the {name} into the {place.target}"
    if place.kind is PlaceKind.ON:
        return f"stack the {name} on the {place.target}"
    return f"move the {name} {place.words}"
