"""The judge of the final physical state: each way to be almost right must count as wrong."""

import numpy as np
import pytest

from vlatools.core import ConfigError, Pose
from vlatools.trials.judge import (
    BodyTruth,
    StageTracker,
    TruthSample,
    Verdict,
    VerifiedBy,
    decide,
    operator_verdict,
)
from vlatools.trials.success import Condition, ConditionKind, StageSpec, SuccessSpec

UP = np.array([0.0, 0.0, 0.0, 1.0])
CUBE = np.full(3, 0.04)
BOWL = np.array([0.132, 0.132, 0.045])


def cube(x, y, z=0.02, speed=0.0, quat=UP):
    return BodyTruth(Pose(np.array([x, y, z]), quat), CUBE, speed)


def bowl(x, y, quat=UP):
    return BodyTruth(Pose(np.array([x, y, 0.0225]), quat), BOWL, 0.0, "bowl")


def run(spec, start, segments, held=frozenset()):
    """Feed each scene of ``segments`` (bodies, seconds) at 10 Hz."""
    tracker = StageTracker(spec, TruthSample(0.0, start))
    t = 0.0
    for bodies, seconds in segments:
        for _ in range(round(seconds * 10)):
            t += 0.1
            tracker.feed(TruthSample(t, bodies, held))
    return tracker


IN_BOWL = SuccessSpec((StageSpec("in", (Condition(ConditionKind.IN_BOWL, "red cube", "left bowl"),)),))
START = {"red cube": cube(0.45, 0.1), "left bowl": bowl(0.62, 0.12)}


def end(red):
    return {"red cube": red, "left bowl": bowl(0.62, 0.12)}


@pytest.mark.parametrize(
    ("red", "success"),
    [
        (cube(0.62, 0.12, 0.024), True),
        (cube(0.62 + 0.061, 0.12, 0.024), True),  # just inside the inner radius of 62 mm
        (cube(0.62 + 0.063, 0.12, 0.024), False),
        (cube(0.62, 0.12, 0.045 + 0.019), True),
        (cube(0.62, 0.12, 0.045 + 0.021), False),  # lies across the rim
        (cube(0.62, 0.12, 0.024, speed=0.011), False),
        (cube(0.45, 0.1), False),
    ],
)
def test_cube_in_bowl_at_its_limits(red, success):
    assert run(IN_BOWL, START, [(end(red), 1.5)]).success is success


def test_held_cube_is_not_delivered():
    inside = end(cube(0.62, 0.12, 0.024))
    assert not run(IN_BOWL, START, [(inside, 2.0)], held=frozenset({"red cube"})).success


def test_tipped_bowl_holds_nothing():
    tipped = bowl(0.62, 0.12, np.array([np.sin(0.5), 0, 0, np.cos(0.5)]))
    assert not run(IN_BOWL, START, [({"red cube": cube(0.62, 0.12, 0.024), "left bowl": tipped}, 2.0)]).success


def test_rest_must_last_and_the_end_counts():
    inside = end(cube(0.62, 0.12, 0.024))
    assert not run(IN_BOWL, START, [(inside, 1.0)]).success  # 0.9 s between first and last sample
    assert run(IN_BOWL, START, [(inside, 1.1)]).success
    # Reached, and afterwards knocked out: the final state counts.
    assert not run(IN_BOWL, START, [(inside, 2.0), (START, 0.2)]).success


def test_gap_in_the_samples_is_no_hold():
    tracker = StageTracker(IN_BOWL, TruthSample(0.0, START))
    for t in (0.1, 5.0):
        tracker.feed(TruthSample(t, end(cube(0.62, 0.12, 0.024))))
    assert not tracker.success


HISTORY = SuccessSpec(
    (
        StageSpec("red_on_yellow", (Condition(ConditionKind.ON_TOP, "red cube", "yellow cube"),)),
        StageSpec(
            "restored",
            (Condition(ConditionKind.AT_START, "red cube"), Condition(ConditionKind.AT_START, "yellow cube")),
        ),
        StageSpec("yellow_on_red", (Condition(ConditionKind.ON_TOP, "yellow cube", "red cube"),)),
    )
)
LAYOUT = {"red cube": cube(0.45, 0.1), "yellow cube": cube(0.45, -0.1)}
RED_ON_YELLOW = {"red cube": cube(0.45, -0.1, 0.06), "yellow cube": cube(0.45, -0.1)}
YELLOW_ON_RED = {"red cube": cube(0.45, 0.1), "yellow cube": cube(0.455, 0.1, 0.06)}


def test_stages_need_their_order():
    assert run(HISTORY, LAYOUT, [(LAYOUT, 2), (RED_ON_YELLOW, 2), (LAYOUT, 2), (YELLOW_ON_RED, 2)]).success
    assert not run(HISTORY, LAYOUT, [(YELLOW_ON_RED, 2)]).success
    assert not run(HISTORY, LAYOUT, [(RED_ON_YELLOW, 2), (YELLOW_ON_RED, 2)]).success  # never restored
    assert not run(HISTORY, LAYOUT, [(RED_ON_YELLOW, 0.5), (LAYOUT, 2), (YELLOW_ON_RED, 2)]).success  # passed by
    verdict = run(HISTORY, LAYOUT, [(RED_ON_YELLOW, 2)]).verdict(claimed=True)
    assert verdict.value is False and verdict.claimed is True
    assert "restored" in verdict.message and "mm" in verdict.message
    assert [stage.reached_s is not None for stage in verdict.stages] == [True, False, False]
    # A stage that was reached shows what was measured then, though the world has gone on.
    whole = run(HISTORY, LAYOUT, [(LAYOUT, 2), (RED_ON_YELLOW, 2), (LAYOUT, 2), (YELLOW_ON_RED, 2)]).verdict(True)
    assert all(check.holds for stage in whole.stages for check in stage.checks)


@pytest.mark.parametrize(("offset", "success"), [(0.019, True), (0.021, False)])
def test_stack_offset(offset, success):
    spec = SuccessSpec((HISTORY.stages[0],))
    scene = {"red cube": cube(0.45 + offset, -0.1, 0.06), "yellow cube": cube(0.45, -0.1)}
    assert run(spec, LAYOUT, [(scene, 2)]).success is success


def test_place_of_another_object():
    spec = SuccessSpec((StageSpec("moved", (Condition(ConditionKind.AT_START, "left bowl", "red cube"),)),))
    moved = {"red cube": cube(0.6, -0.1), "left bowl": bowl(0.47, 0.11)}
    assert run(spec, START, [(moved, 2)]).success
    assert not run(spec, START, [(START, 2)]).success


def test_unknown_object_is_refused():
    with pytest.raises(ConfigError, match="left bowl"):
        StageTracker(IN_BOWL, TruthSample(0.0, LAYOUT))


def test_claim_stands_beside_and_the_operator_has_the_last_word():
    seen = Verdict(VerifiedBy.PERCEPTION, True, True, "seen")
    person = operator_verdict(False, True, "Ada", "it fell off the rim")
    assert decide([person, seen]) is person
    assert decide([Verdict(VerifiedBy.OPERATOR, None, True, "not asked"), seen]) is seen
    assert decide([]) is None
    assert person.as_dict()["claimed"] is True


@pytest.mark.parametrize(
    "make",
    [
        lambda: Condition(ConditionKind.IN_BOWL, "red cube"),
        lambda: Condition(ConditionKind.AT_POINT, "red cube"),
        lambda: Condition(ConditionKind.AT_START, "red cube", tolerance_m=float("nan")),
        lambda: StageSpec("empty", ()),
        lambda: SuccessSpec(()),
        lambda: SuccessSpec((HISTORY.stages[0], HISTORY.stages[0])),
    ],
)
def test_nonsense_specs_are_refused(make):
    with pytest.raises(ConfigError):
        make()
