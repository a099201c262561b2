"""Place phrases: into a bowl, on an object, next to one, where one was, off one."""

from __future__ import annotations

from vlatools.agent import lexicon as lex
from vlatools.agent.goals import Beside, InBowl, ObjectRef, OnTable, OnTop, PlaceRef, Side, WhereWas
from vlatools.agent.phrases import Phrases
from vlatools.core import Rejected


class Places(Phrases):
    """The middle of the parser."""

    def destination(self, verb: str, objects: list[ObjectRef], back: bool) -> PlaceRef:
        moved = tuple(objects)
        if verb == "unstack" or verb == "separate" or self.peek() in {"off", "from", "out"}:
            source = self.off_source(moved)
            self.accept("down")
            here = self._at
            place = self._place(moved)
            if place is None:
                self._at = here
                return OnTable(source)
            return place
        back = self.accept("back") or back
        down = self.accept("down") or self.accept("away")
        place = self._place(moved)
        if place is not None:
            return place
        if back or verb in lex.RESTORE_VERBS or verb == "return":
            return WhereWas()
        if down or verb in lex.TAKE_VERBS:
            return OnTable()
        raise self.fail("where to: into a bowl, on an object, next to one, or where one was")

    def off_source(self, moved: tuple[ObjectRef, ...]) -> ObjectRef | None:
        """'off (of) Y', 'from (the top of) Y', 'out of Y'."""
        if not (self.accept("off") or self.accept("from") or self.accept("out")):
            return None
        self.accept("of")
        self.accept("on")
        if not self.accept("the", "top", "of"):
            self.accept("top", "of")
        if not (self.noun_phrase_begins() or self.peek() in lex.SIDES or self.peek() in {"it", *lex.DEMONSTRATIVES}):
            return None  # "take the red cube off"
        return self.target("", moved)

    def _place(self, moved: tuple[ObjectRef, ...]) -> PlaceRef | None:
        """A place, or None when none begins here."""
        if self.accept("behind"):
            return Beside(self.target("", moved), Side.BEHIND)
        if self.accept("in", "front", "of"):
            return Beside(self.target("", moved), Side.FRONT)
        if self.accept("beside") or self.accept("next", "to") or self.accept("near"):
            return Beside(self.target("", moved), Side.ANY)
        preposition = self._preposition()
        beside = self._beside(moved)
        if beside is not None:
            return beside
        if self.accept("where"):
            return self._where(moved)
        if not preposition:
            return None
        origin = self._origin(moved)
        if origin is not None:
            return origin
        if preposition != "in" and self._table():
            return OnTable()
        if preposition == "on":
            return OnTop(self.target("", moved))
        target = self.target("bowl" if preposition == "in" else "", moved)
        if preposition == "in" or target.category == "bowl":
            return InBowl(target)
        raise Rejected(
            "not_understood", f"'to {target}' says not where exactly: say 'on', 'next to' or 'where {target} was'"
        )

    def _preposition(self) -> str:
        if self.accept("on", "top", "of") or self.accept("onto", "the", "top", "of"):
            return "on"
        for words, meaning in (
            (("in", "into", "inside", "within"), "in"),
            (("on", "onto", "upon", "atop", "over"), "on"),
            (("to", "at"), "to"),
        ):
            for word in words:
                if word == "to" and self.peek(1) in lex.VERBS:
                    continue  # "remove it to restore the initial layout"
                if self.accept(word):
                    if meaning == "in":
                        self.accept("of")
                    return meaning
        return ""

    def _beside(self, moved: tuple[ObjectRef, ...]) -> Beside | None:
        """'(to the) left of Y'."""
        start = self._at
        self.accept("the")
        word = self.peek()
        if word in {"left", "right"} and self.peek(1) in {"of", "side"}:
            self._at += 1
            self.accept("side")
            if self.accept("of"):
                return Beside(self.target("", moved), Side(word))
        self._at = start
        return None

    def _table(self) -> bool:
        start = self._at
        self.accept("the")
        if self.accept("table") or self.accept("tabletop"):
            return True
        self._at = start
        return False

    def _where(self, moved: tuple[ObjectRef, ...]) -> WhereWas:
        """After 'where': 'the blue cube (originally) was (at the beginning)'."""
        if self.accept("it"):
            ref: ObjectRef | None = None
        else:
            ref, _ = self.noun_phrase()
        self.accept_any(lex.FIRST)
        if self.accept("used", "to"):
            known = self.accept("be") or self.accept("stand") or self.accept("lie") or self.accept("sit")
        elif self.accept("came"):
            known = self.accept("from")
        else:
            self.accept("had")
            known = bool(self.accept_any(lex.BEING)) or self.accept("been")
        if not known:
            raise self.fail("'was', 'stood' or 'used to be'")
        self._origin_tail()
        return WhereWas(None if ref in moved else ref)

    def _origin_tail(self) -> None:
        """'(back) (to its place) (at the beginning)': says again what is already meant."""
        for word in ("standing", "placed", "located"):
            self.accept(word)
        self.accept_any(lex.FIRST)
        if self.accept("at", "first"):
            return
        at_the = self.accept("at", "the") or self.accept("in", "the")
        if at_the and not (self.accept("beginning") or self.accept("start")):
            raise self.fail("'beginning' or 'start'")
        if self.accept("to", "where", "it") and not self.accept_any(lex.BEING):
            raise self.fail("'was'")

    def _origin(self, moved: tuple[ObjectRef, ...]) -> WhereWas | None:
        """'its original place', 'the blue cube's position', 'the (original) place of / where Y (was)'."""
        start = self._at
        if self.accept("its") or self.accept("their"):
            self.accept_any(lex.FIRST)
            if not self.accept_any(lex.SPOTS):
                raise self.fail("'place' or 'position'")
            self._origin_tail()
            return WhereWas()
        self.accept("the")
        self.accept_any(lex.FIRST)
        if self.accept_any(lex.SPOTS):
            if self.accept("of"):
                ref = self.target("", ())
                return WhereWas(None if ref in moved else ref)
            if self.accept("where"):
                return self._where(moved)
            return WhereWas()
        self._at = start
        mentions = len(self._mentioned)
        try:
            ref, possessive = self.noun_phrase()
        except Rejected:
            possessive = False
        if possessive:
            self.accept_any(lex.FIRST)
            if not self.accept_any(lex.SPOTS):
                raise self.fail("'place' or 'position'")
            self._origin_tail()
            return WhereWas(None if ref in moved else ref)
        self._at = start
        del self._mentioned[mentions:]
        return None
