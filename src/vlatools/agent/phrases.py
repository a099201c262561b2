"""Tokens and noun phrases: the lower half of the parser, with what pronouns refer to."""

from __future__ import annotations

from vlatools.agent import lexicon as lex
from vlatools.agent.goals import ObjectRef, Side
from vlatools.core import Rejected

EXAMPLES = (
    "'put the red cube into the left bowl', 'stack the blue cube on the red cube', 'take it off', "
    "'move the left bowl to where the blue cube was', 'restore the initial layout'"
)


class Phrases:
    """One pass over the tokens; remembers what pronouns refer to."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self.verb = ""
        self.moved: ObjectRef | None = None  # manipulated by the last goal: "it"
        self._mentioned: list[ObjectRef] = []  # newest last: "that bowl", "into it"

    # ---- tokens

    def peek(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self._tokens[index] if index < len(self._tokens) else ""

    def accept(self, *words: str) -> bool:
        """Consume exactly these words, if they come next."""
        if all(self.peek(i) == word for i, word in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def accept_any(self, words: frozenset[str]) -> str:
        word = self.peek()
        if word and word in words:
            self._at += 1
            return word
        return ""

    def fail(self, wanted: str) -> Rejected:
        word = self.peek()
        before = " ".join(self._tokens[max(0, self._at - 6) : self._at])
        where = f"'{word}'" if word else "the end"
        return Rejected(
            "not_understood", f"after '{before}' comes {where}, expected {wanted}: say for example {EXAMPLES}"
        )

    # ---- noun phrases

    def objects(self) -> list[ObjectRef]:
        """One noun phrase or a list of them: 'the red cube, the blue one and the yellow cube'."""
        found = [self.object()]
        while self.peek() in {",", "and"}:
            start = self._at
            self.accept(",")
            self.accept("and")
            if not self.noun_phrase_begins():
                self._at = start
                break
            found.append(self.object())
        return found

    def noun_phrase_begins(self) -> bool:
        word = self.peek()
        return word in lex.ARTICLES or word in lex.COLORS or word in lex.ALL_WORDS

    def object(self) -> ObjectRef:
        """The manipulated object; 'it' is what the last goal moved."""
        if self.accept("it"):
            if self.moved is None:
                raise self.fail("a named object: nothing was moved yet that 'it' could mean")
            return self.moved
        ref, possessive = self.noun_phrase()
        if possessive:
            raise self.fail("an object, not its place")
        return ref

    def target(self, wanted: str, not_this: tuple[ObjectRef, ...]) -> ObjectRef:
        """The object that a place refers to; 'it' is the newest mention that fits."""
        if self.accept("it"):
            for ref in self._antecedents():
                if ref not in not_this and (not wanted or ref.category == wanted):
                    return ref
            raise self.fail(f"a named {wanted or 'object'}: nothing was mentioned that 'it' could mean")
        ref, possessive = self.noun_phrase()
        if possessive:
            raise self.fail("an object, not its place")
        return ref

    def _antecedents(self) -> list[ObjectRef]:
        """What a pronoun may mean: what was moved last, then the newest mention first."""
        moved = [] if self.moved is None else [self.moved]
        return [*moved, *reversed(self._mentioned)]

    def noun_phrase(self) -> tuple[ObjectRef, bool]:
        """A noun phrase and whether it ends in 's."""
        start = self._at
        everything = bool(self.accept_any(lex.ALL_WORDS))
        self.accept("of")
        article = self.accept_any(lex.ARTICLES)
        demonstrative = self.accept_any(lex.DEMONSTRATIVES)
        color, side = "", None
        while True:
            word = self.peek()
            bare = word.removesuffix("'s")
            if word in lex.SIDES and side is None:
                side = Side(lex.SIDES[word])
                self._at += 1
            elif word in lex.COLORS and not color:
                color = word
                self._at += 1
            elif bare in lex.NOUNS:
                self._at += 1
                return self._finish(bare, color, side, everything, demonstrative), word.endswith("'s")
            elif bare in lex.COLORS and word.endswith("'s") and not color:
                self._at += 1
                return self._finish("one", bare, side, everything, demonstrative), True
            elif color:  # "stack blue on red"
                return self._finish("one", color, side, everything, demonstrative), False
            else:
                if self._at == start or not (article or demonstrative or side or everything):
                    raise self.fail("an object such as 'the red cube' or 'the left bowl'")
                raise self.fail("a colour, left, right, 'cube' or 'bowl'")

    def _finish(self, noun: str, color: str, side: Side | None, everything: bool, demonstrative: str) -> ObjectRef:
        category = lex.NOUNS[noun]
        if demonstrative and not color and side is None:
            for ref in self._antecedents():
                if not category or ref.category == category:
                    self._mentioned.append(ref)
                    return ref
            raise self.fail(f"a {category or 'object'} that was named before: 'that {noun}' refers to none")
        if not color and not category and side is None and not everything:
            raise self.fail("which object: give its colour, e.g. 'the red cube'")
        if self.peek() == "on" and self.peek(1) == "the" and self.peek(2) in lex.SIDES and side is None:
            after = self.peek(3)
            if after != "of" and after not in lex.NOUNS and after not in lex.COLORS:
                side = Side(lex.SIDES[self.peek(2)])
                self._at += 3
        everything = everything or noun in lex.PLURALS
        ref = ObjectRef(category, color, side, everything)
        self._mentioned.append(ref)
        return ref
