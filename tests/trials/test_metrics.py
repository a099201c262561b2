"""Figures over many trials."""

import io
import math

import pytest
from rich.console import Console

from vlatools.trials.metrics import family_stats, rate, spread
from vlatools.trials.summary import TrialRow, summarize, summary_table


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [  # by the closed formula, as in Newcombe (1998), rows of table I and by hand
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_rate(successes, total, low, high):
    found = rate(successes, total)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
    assert found.low <= found.value <= found.high


def test_rate_edges():
    assert (rate(0, 0).low, rate(0, 0).high) == (0.0, 1.0)
    assert str(rate(0, 0)) == "0/0"
    for bad in ((-1, 3), (4, 3)):
        with pytest.raises(ValueError, match="successes"):
            rate(*bad)


def test_spread_ignores_what_is_no_number():
    assert spread([1.0, 2.0, 3.0, math.nan, math.inf]).median == 2.0
    assert math.isnan(spread([]).median)


def rows():
    calls = (
        {"family": "reach", "outcome": "COMPLETED", "duration": 2.0, "clips": 1},
        {"family": "grasp", "outcome": "STAGNATED", "duration": 9.0, "clips": 0},
        {"family": "grasp", "outcome": "COMPLETED", "duration": 1.0, "clips": 0},
    )
    return [
        TrialRow("simple", 0, True, True, 20.0, "", 1, calls),
        TrialRow("simple", 1, False, True, 60.0, "time limit", 8, calls[:1]),
        TrialRow("long", 0, None, False, 90.0),
    ]


def test_families():
    reach, grasp = family_stats([call for row in rows() for call in row.invocations])
    assert reach.completed.successes == reach.completed.total == 2 and reach.clips == 2
    assert grasp.completed.total == 2 and grasp.others == (("STAGNATED", 1),) and grasp.duration.median == 1.0


def test_summary_counts_claims_that_were_false():
    simple, long = summarize(rows())
    assert (simple.success.successes, simple.success.total, simple.false_claims) == (1, 2, 1)
    assert simple.duration.median == 20.0 and simple.failures == (("time limit", 1),)
    assert long.success.successes == 0 and long.failures == (("not judged", 1),)
    console = Console(file=io.StringIO(), width=140)
    console.print(summary_table(rows()))
    shown = console.file.getvalue()
    assert "1/2" in shown and "time limit" in shown and "1 STAGNATED" in shown
