"""Words of instructions as numbers: a closed vocabulary, unknown words as one token of their own."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

MAX_TOKENS = 24
PAD, UNKNOWN = 0, 1
_WORDS = """
    reach grasp move release push pull rotate put stack unstack take hold place restore initial layout then and
    the a that it to into in on onto off of from above top where was back beside next left right behind front
    red yellow green blue orange purple grey white cube bowl cubes bowls table free degrees by clockwise
""".split()  # noqa: SIM905 - a list of words is read as words
VOCABULARY: dict[str, int] = {word: index for index, word in enumerate(dict.fromkeys(_WORDS), start=2)}
SIZE = len(VOCABULARY) + 2


def tokens(instruction: str) -> NDArray[np.int64]:
    """Token numbers (MAX_TOKENS,); what is longer is cut, what is shorter is padded with ``PAD``."""
    words = re.findall(r"[a-z]+", instruction.lower())[:MAX_TOKENS]
    out = np.full(MAX_TOKENS, PAD, np.int64)
    out[: len(words)] = [VOCABULARY.get(word, UNKNOWN) for word in words]
    return out
