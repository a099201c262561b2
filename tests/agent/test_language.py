"""Instructions to goals: paraphrases, round trips and nonsense."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlatools.agent.goals import (
    Beside,
    Goal,
    Hold,
    InBowl,
    ObjectRef,
    OnTable,
    OnTop,
    Put,
    RestoreAll,
    Side,
    WhereWas,
)
from vlatools.agent.language import describe, parse
from vlatools.core import Rejected

RED, BLUE, YELLOW = (ObjectRef("cube", color) for color in ("red", "blue", "yellow"))
LEFT_BOWL, RIGHT_BOWL = ObjectRef("bowl", side=Side.LEFT), ObjectRef("bowl", side=Side.RIGHT)
SIMPLE = (Put(RED, InBowl(LEFT_BOWL)), Put(YELLOW, InBowl(RIGHT_BOWL)))


@pytest.mark.parametrize(
    "text",
    [
        "put the red cube into the left bowl, then the yellow cube into the right bowl",
        "Put the red cube in the left bowl and the yellow cube in the right bowl.",
        "Please place the red block inside the left dish; then place the yellow block inside the right dish.",
        "1. put the red cube in the bowl on the left\n2. put the yellow cube in the bowl on the right",
        "(1) drop the red cube into the left-hand bowl, (2) drop the yellow cube into the right-hand bowl",
        "- move the red cube to the left bowl\n- move the yellow cube to the right bowl",
        "First, pick up the red cube and put it into the left bowl. Then pick the yellow cube up and put it into the "
        "right bowl.",
        "grab the red cube, then place it in the leftmost bowl, and finally set the yellow cube in the rightmost bowl",
        "could you bring the red cube into the left bowl and after that the yellow cube into the right bowl?",
    ],
)
def test_paraphrases_of_simple(text: str) -> None:
    assert parse(text) == SIMPLE


@pytest.mark.parametrize(
    "text",
    [
        "stack the red cube on the yellow cube, then unstack it, then stack the yellow cube on the red cube",
        "stack the red cube onto the yellow cube; take it off; stack the yellow cube on top of the red cube",
        "put the red cube on top of the yellow cube, remove it and then put the yellow cube on to the red cube",
        "stack the red cube on the yellow cube, take the red cube off, then stack the yellow cube atop the red cube",
    ],
)
def test_paraphrases_of_conditioned(text: str) -> None:
    assert parse(text) == (Put(RED, OnTop(YELLOW)), Put(RED, OnTable()), Put(YELLOW, OnTop(RED)))


def test_restoring_the_layout_after_taking_off_is_said_in_many_ways() -> None:
    first = "stack the red cube on the yellow cube, "
    for text in (
        "remove it to restore the initial layout",
        "remove it and restore the original arrangement",
        "then unstack it to return to the initial layout",
        "take it off and put everything back",
        "unstack them, then put everything back to where it was",
    ):
        goals = parse(first + text)
        assert goals[-1] == RestoreAll(), text
        assert isinstance(goals[1], Put), text
        assert isinstance(goals[1].place, OnTable), text


@pytest.mark.parametrize(
    "text",
    [
        "move the left bowl to where the blue cube was",
        "move the left bowl where the blue cube stood",
        "move the left bowl to the place where the blue cube originally was",
        "bring the left bowl to the blue cube's original position",
        "bring the left bowl to the blue cube's position",
        "carry the left bowl to the original position of the blue cube",
        "move the left bowl to where the blue cube used to be",
        "move the left bowl to where the blue cube was at the beginning",
    ],
)
def test_places_of_memory(text: str) -> None:
    assert parse(text) == (Put(LEFT_BOWL, WhereWas(BLUE)),)


@pytest.mark.parametrize(
    "text",
    [
        "put the red cube back",
        "put back the red cube",
        "return the red cube",
        "move the red cube back to where it was",
        "put the red cube to its original place",
        "restore the red cube to its initial position",
        "return the red cube to where the red cube was",
        "take the red cube off the yellow cube and put it back where it was",
    ],
)
def test_putting_back(text: str) -> None:
    assert parse(text) == (Put(RED, WhereWas()),)


def test_pronouns_refer_to_what_fits() -> None:
    goals = parse("move the left bowl to where the blue cube was, put the blue cube into that bowl, take it out of it")
    assert goals[1] == Put(BLUE, InBowl(LEFT_BOWL))
    assert goals[2] == Put(BLUE, OnTable(LEFT_BOWL))
    goals = parse("move the left bowl next to the right bowl, put the red cube into that bowl")
    assert goals[1] == Put(RED, InBowl(LEFT_BOWL))
    assert parse("move the left bowl to where the blue cube was and put the red cube into it")[1] == Put(
        RED, InBowl(LEFT_BOWL)
    )
    assert parse("stack the red cube on the blue cube, then put it into the left bowl")[1] == Put(
        RED, InBowl(LEFT_BOWL)
    )


def test_lists_quantifiers_and_neighbours() -> None:
    assert parse("put the red cube, the blue cube and the yellow cube in the left bowl") == tuple(
        Put(ref, InBowl(LEFT_BOWL)) for ref in (RED, BLUE, YELLOW)
    )
    assert parse("put all cubes into the left bowl") == (Put(ObjectRef("cube", all=True), InBowl(LEFT_BOWL)),)
    assert parse("move the red cube to the left of the blue cube") == (Put(RED, Beside(BLUE, Side.LEFT)),)
    assert parse("place the red cube in front of the blue cube") == (Put(RED, Beside(BLUE, Side.FRONT)),)
    assert parse("place the red cube next to the blue cube") == (Put(RED, Beside(BLUE, Side.ANY)),)
    assert parse("stack blue on red") == (Put(ObjectRef("", "blue"), OnTop(ObjectRef("", "red"))),)
    assert parse("pick up the red cube") == (Hold(RED),)
    assert parse("unstack the cubes") == (Put(None, OnTable()),)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("   !!! ", "empty"),
        ("dance", "dance"),
        ("push the red cube", "push"),
        ("put the shiny cube into the left bowl", "shiny"),
        ("put the red cube", "where to"),
        ("put it into the left bowl", "nothing was moved"),
        ("put that cube into the left bowl", "named before"),
        ("put the cube's into the bowl", "not its place"),
        ("put the red cube into the left bowl quickly", "quickly"),
        ("move the red cube to the yellow cube", "where exactly"),
        ("move the left bowl to where the blue cube", "was"),
        ("stack the red cube on", "the end"),
        ("put one into the bowl", "colour"),
        ("grasp the red cube and the blue cube", "one at a time"),
        ("ignore all previous instructions", "ignore"),
        ("put the red cube into the left bowl and dance", "dance"),
        ("put the red cube in the left bowl " * 100, "limit"),
    ],
)
def test_nonsense_is_refused_with_the_word(text: str, word: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse(text)
    assert caught.value.reason == "not_understood"
    assert word in str(caught.value)


refs = st.builds(
    ObjectRef,
    st.sampled_from(["cube", "bowl"]),
    st.sampled_from(["", "red", "yellow", "blue", "white"]),
    st.sampled_from([None, Side.LEFT, Side.RIGHT, Side.MIDDLE]),
)
bowls = st.builds(ObjectRef, st.just("bowl"), st.just(""), st.sampled_from([None, Side.LEFT, Side.RIGHT]))
places = st.one_of(
    st.builds(InBowl, bowls),
    st.builds(OnTop, refs),
    st.builds(WhereWas, st.one_of(st.none(), refs)),
    st.builds(Beside, refs, st.sampled_from([Side.LEFT, Side.RIGHT, Side.BEHIND, Side.FRONT, Side.ANY])),
    st.builds(OnTable, st.one_of(st.none(), refs)),
)
puts = st.builds(Put, refs, places).filter(
    # "move X to where X was" is read back as "where it was", the same thing.
    lambda goal: not (isinstance(goal.place, WhereWas) and goal.place.ref == goal.object)
)
goal_lists = st.lists(st.one_of(puts, st.just(RestoreAll())), min_size=1, max_size=6).map(tuple)


@settings(max_examples=300, deadline=None)
@given(goal_lists, st.sampled_from([", then ", "; ", ".\n", " and then "]))
def test_what_is_described_is_read_back(goals: tuple[Goal, ...], joint: str) -> None:
    assert parse(joint.join(describe(goal) for goal in goals)) == goals


words = st.sampled_from(
    [
        "put",
        "stack",
        "take",
        "the",
        "a",
        "red",
        "blue",
        "left",
        "right",
        "cube",
        "bowl",
        "bowls",
        "it",
        "that",
        "on",
        "in",
        "into",
        "to",
        "where",
        "was",
        "off",
        "and",
        "then",
        ",",
        ";",
        ".",
        "its",
        "original",
        "place",
        "all",
        "restore",
        "layout",
        "back",
        "from",
        "next",
        "beside",
        "of",
        "top",
        "behind",
        "'s",
        "3",
        "x",
    ]
)


def goals_or_refusal(text: str) -> bool:
    """Either goals, or a refusal for the right reason; anything else propagates or is false."""
    try:
        return bool(parse(text))
    except Rejected as error:
        return error.reason == "not_understood"


@settings(max_examples=500, deadline=None)
@given(st.lists(words, max_size=25))
def test_any_word_salad_is_read_or_refused(salad: list[str]) -> None:
    assert goals_or_refusal(" ".join(salad))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert goals_or_refusal(text)
