"""The words that the plan library understands, and how a text becomes tokens."""

from __future__ import annotations

import re

COLORS = frozenset(["red", "yellow", "blue", "green", "orange", "purple", "white", "black", "grey", "pink", "brown"])
COLOR_ALIASES = {"gray": "grey", "violet": "purple"}
NOUNS = {
    "cube": "cube", "cubes": "cube", "block": "cube", "blocks": "cube", "brick": "cube", "bricks": "cube",
    "bowl": "bowl", "bowls": "bowl", "dish": "bowl", "dishes": "bowl", "one": "", "object": "", "objects": "",
}  # fmt: skip
PLURALS = frozenset(["cubes", "blocks", "bricks", "bowls", "dishes", "objects"])
SIDES = {
    "left": "left", "leftmost": "left", "lefthand": "left", "right": "right", "rightmost": "right",
    "righthand": "right", "middle": "middle", "center": "middle", "centre": "middle", "central": "middle",
}  # fmt: skip
ARTICLES = frozenset(["the", "a", "an"])
DEMONSTRATIVES = frozenset(["that", "this", "same"])
ALL_WORDS = frozenset(["all", "both", "every", "each"])
GROUPS = frozenset(["them", "they", "stack", "tower", "pile"])

PUT_VERBS = frozenset(
    [
        "put",
        "place",
        "set",
        "lay",
        "drop",
        "move",
        "bring",
        "carry",
        "transfer",
        "shift",
        "deposit",
        "position",
        "return",
    ]
)
STACK_VERBS = frozenset(["stack", "pile"])
TAKE_VERBS = frozenset(["unstack", "take", "remove", "separate", "get"])
PICK_VERBS = frozenset(["pick", "grasp", "grab", "hold", "lift"])
RESTORE_VERBS = frozenset(["restore", "recover", "reestablish", "reset", "revert"])
VERBS = PUT_VERBS | STACK_VERBS | TAKE_VERBS | PICK_VERBS | RESTORE_VERBS

# "stand" etc. after "where the blue cube ..."
BEING = frozenset(["was", "were", "stood", "started", "sat", "lay", "began", "is", "stands", "originated", "rested"])
FIRST = frozenset(
    [
        "initial",
        "original",
        "starting",
        "start",
        "first",
        "old",
        "previous",
        "former",
        "initially",
        "originally",
        "before",
        "earlier",
    ]
)
SPOTS = frozenset(["place", "position", "spot", "location", "places", "positions"])
LAYOUTS = frozenset(["layout", "scene", "arrangement", "configuration", "state", "setup", "situation", "order"])
FILLERS = frozenset(
    [
        "please",
        "now",
        "also",
        "carefully",
        "gently",
        "directly",
        "again",
        "first",
        "firstly",
        "second",
        "secondly",
        "third",
        "thirdly",
        "next",
        "afterwards",
        "afterward",
        "finally",
        "lastly",
        "later",
        "straight",
        "immediately",
        "just",
        "so",
        "can",
        "could",
        "you",
        "robot",
        "step",
        "task",
    ]
)
SEPARATORS = frozenset([",", ";", "then"])


def tokenize(text: str) -> list[str]:
    """Lower-case words and separators. Sentence ends, line ends and list numbers become ``;``.

    Two-word spellings are joined: ``on to`` -> onto, ``in to`` -> into, ``left-hand`` -> lefthand.
    """
    text = text.lower().replace("\u2019", "'")
    text = re.sub(r"\bleft[- ]hand\b", "lefthand", text)
    text = re.sub(r"\bright[- ]hand\b", "righthand", text)
    text = re.sub(r"\bre-establish\b", "reestablish", text)
    text = re.sub(r"\bon to\b", "onto", re.sub(r"\bin to\b", "into", text))
    text = re.sub(r"\bafter that\b", "afterwards", text)
    text = re.sub(r"(^|[\s(])\(?\d+\s*[.):](?=\s|$)", r"\1 ; ", text)
    text = re.sub(r"(^|\n)\s*[-*•]\s+", r"\1 ; ", text)
    text = re.sub(r"[.:!?\n]+", " ; ", text)
    words = re.findall(r"[a-z0-9]+(?:'s)?|[,;]|[^\sa-z0-9,;\"()]", text)
    return [COLOR_ALIASES.get(word, word) for word in words]
