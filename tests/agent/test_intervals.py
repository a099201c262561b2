"""Wilson intervals against published values, and at the ends."""

from __future__ import annotations

import pytest

from vlatools.trials.intervals import wilson


def test_known_values() -> None:
    # Wilson (1927), as tabulated: 13 of 20 at 95 %.
    low, high = wilson(13, 20)
    assert (round(low, 3), round(high, 3)) == (0.433, 0.819)
    low, high = wilson(200, 200)
    assert high == pytest.approx(1.0)
    assert round(low, 3) == 0.981
    assert wilson(0, 10)[0] == 0.0
    assert wilson(0, 0) == (0.0, 1.0)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="5 successes in 4"):
        wilson(5, 4)
