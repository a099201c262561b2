"""Instruction -> goals: a small recursive-descent parser. What it does not understand it refuses, naming the word."""

from __future__ import annotations

from vlatools.agent import lexicon as lex
from vlatools.agent.goals import (
    Beside,
    Goal,
    Hold,
    InBowl,
    OnTable,
    OnTop,
    Put,
    RestoreAll,
    Side,
    WhereWas,
)
from vlatools.agent.phrases import EXAMPLES
from vlatools.agent.places import Places
from vlatools.core import Rejected

MAX_WORDS = 400


def parse(instruction: str) -> tuple[Goal, ...]:
    """Goals in the order in which the instruction names them.

    Raises:
        Rejected: ``not_understood``; the message names the word and shows what is understood.
    """
    tokens = lex.tokenize(instruction)
    if not any(token.isalpha() for token in tokens):
        raise Rejected("not_understood", f"the instruction is empty: say what to do, e.g. {EXAMPLES}")
    if len(tokens) > MAX_WORDS:
        raise Rejected("not_understood", f"the instruction has {len(tokens)} words, the limit is {MAX_WORDS}: split it")
    return _Parser(tokens).sequence()


class _Parser(Places):
    """Sentences: the upper half of the parser."""

    def sequence(self) -> tuple[Goal, ...]:
        goals: list[Goal] = []
        firm = True  # whether "then" or a sentence end stands before the clause
        while True:
            firm = self._separators() or firm
            if not self.peek():
                break
            new = self._clause()
            # "pick it up and put it ...", "take it off and put it ...": one movement, not two.
            if goals and len(new) == 1 and self._continues(goals[-1], new[0], firm):
                goals.pop()
            goals.extend(new)
            firm = False
            if self.peek() and not self._between():
                raise self.fail("a comma, 'then', 'and' or the end")
        if not goals:
            raise self.fail("something to do")
        return tuple(goals)

    @staticmethod
    def _continues(previous: Goal, goal: Goal, firm: bool) -> bool:
        if not isinstance(goal, Put):
            return False
        if isinstance(previous, Hold):
            return previous.object == goal.object
        same = isinstance(previous, Put) and isinstance(previous.place, OnTable) and previous.object == goal.object
        return same and not firm

    def _separators(self) -> bool:
        firm = False
        while True:
            word = self.peek()
            if word in lex.SEPARATORS or self._filler() or word == "and":
                firm = firm or word in {";", "then"} or word == "afterwards"
                self._at += 1
            elif (
                (word == "to" and self.peek(1) in lex.RESTORE_VERBS)
                or word in {"i", "want"}
                or (word == "to" and self.peek(1) in lex.VERBS)
            ):
                self._at += 1
            else:
                return firm

    def _between(self) -> bool:
        word = self.peek()
        return word in lex.SEPARATORS or self._filler() or word == "and" or (word == "to" and self.peek(1) in lex.VERBS)

    def _clause(self) -> list[Goal]:
        verb = self.accept_any(lex.VERBS)
        if not verb:
            if not self.verb:
                raise self.fail("a verb such as put, stack, take or move")
            verb = self.verb  # "..., then the yellow cube into the right bowl"
        self.verb = verb
        self._skip_fillers()
        if self._layout(verb):
            return [RestoreAll()]
        if verb in lex.PICK_VERBS:
            return self._pick()
        back = self.accept("back")
        if verb in lex.TAKE_VERBS and self._group():
            self.off_source(())
            return [Put(None, OnTable())]
        objects = self.objects()
        self._skip_fillers()
        place = self.destination(verb, objects, back)
        self.moved = objects[-1]
        return [Put(item, place) for item in objects]

    def _pick(self) -> list[Goal]:
        up = self.accept("up")
        objects = self.objects()
        if not up:
            self.accept("up")
        if len(objects) != 1 or objects[0].all:
            raise self.fail("one object: the gripper holds one at a time")
        self.moved = objects[0]
        if self.peek() in {"off", "from", "out"}:
            self.off_source(tuple(objects))
        return [Hold(objects[0])]

    def _skip_fillers(self) -> None:
        while self._filler():
            self._at += 1

    def _filler(self) -> bool:
        """Whether the next word says nothing; "next to" does."""
        return self.peek() in lex.FILLERS and not (self.peek() == "next" and self.peek(1) == "to")

    def _layout(self, verb: str) -> bool:
        """'the initial layout', 'everything (back)', after a verb that can mean restoring."""
        if verb not in lex.RESTORE_VERBS | {"return", "put", "get", "move", "bring"}:
            return False
        start = self._at
        back = self.accept("back")
        self.accept("to")
        if self.accept("everything"):
            back = self.accept("back") or back
            self._origin_tail()
            return True
        self.accept_any(lex.ARTICLES)
        first = self.accept_any(lex.FIRST)
        if (self.accept_any(lex.LAYOUTS) or (first and self.accept_any(lex.SPOTS))) and self.peek() != "of":
            return True
        self._at = start
        return False

    def _group(self) -> bool:
        """'them', 'the stack', 'the (two) cubes': whatever was stacked last."""
        start = self._at
        self.accept_any(lex.ARTICLES)
        self.accept("two")
        if self.accept_any(lex.GROUPS) or (self.peek() in lex.PLURALS and self.accept_any(lex.PLURALS)):
            self.accept("apart")
            return True
        self._at = start
        return False


def describe(goal: Goal) -> str:
    """The goal in words that :func:`parse` reads back to the same goal."""
    if isinstance(goal, RestoreAll):
        return "restore the initial layout"
    if isinstance(goal, Hold):
        return f"pick up {goal.object}"
    what = str(goal.object) if goal.object is not None else "the stack"
    place = goal.place
    if isinstance(place, InBowl):
        return f"put {what} into {place.bowl}"
    if isinstance(place, OnTop):
        return f"stack {what} on {place.support}"
    if isinstance(place, WhereWas):
        where = "where it was" if place.ref is None else f"where {place.ref} was"
        return f"move {what} to {where}"
    if isinstance(place, Beside):
        words = {
            Side.LEFT: "to the left of", Side.RIGHT: "to the right of", Side.BEHIND: "behind",
            Side.FRONT: "in front of",
        }  # fmt: skip
        return f"move {what} {words.get(place.side, 'next to')} {place.ref}"
    source = f" off {place.source}" if place.source is not None else ""
    return f"unstack {what}{source}"
