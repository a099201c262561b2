"""Cancel token, chunk, invocation, clock: the small types that every floor relies on."""

import math
import threading

import numpy as np
import pytest

from vlatools.core import (
    FAMILIES,
    ActionChunk,
    ActionSpace,
    CancelToken,
    ChunkRefused,
    Family,
    Invocation,
    ManualClock,
    Outcome,
    Rejected,
)
from vlatools.core.pose import down_quat


def _rows(n: int = 3) -> np.ndarray:
    rows = np.zeros((n, 8))
    rows[:, :3] = (0.5, 0.0, 0.3)
    rows[:, 3:7] = down_quat()
    rows[:, 7] = 0.04
    return rows


def _chunk(rows: np.ndarray, **changes: float) -> ActionChunk:
    fields = {"stamp_s": 1.0, "dt": 0.1} | changes
    return ActionChunk("a", 0, ActionSpace.EE_POSE, actions=rows, **fields)


def test_cancel_three_times_is_once_and_the_first_reason_stays() -> None:
    """C42."""
    token = CancelToken()
    assert not token.canceled
    assert token.reason == ""
    token.cancel(CancelToken.PREEMPT)
    token.cancel()
    token.cancel()
    assert token.canceled
    assert token.reason == CancelToken.PREEMPT


def test_a_cancel_does_not_reach_the_next_goal() -> None:
    """C41."""
    first, second = CancelToken(), CancelToken()
    first.cancel()
    assert not second.canceled


def test_racing_cancels_agree_on_one_reason() -> None:
    for _ in range(50):
        token = CancelToken()
        threads = [threading.Thread(target=token.cancel, args=(r,)) for r in ("cancel", "preempt") * 3]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert token.canceled
        assert token.reason in ("cancel", "preempt")


def test_a_chunk_knows_its_end() -> None:
    chunk = _chunk(_rows(4))
    assert chunk.horizon == 4
    assert chunk.end_s == pytest.approx(1.4)


@pytest.mark.parametrize("shape", [(0, 8), (3, 7), (8,), (1001, 8)])
def test_a_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ChunkRefused) as error:
        _chunk(np.zeros(shape))
    assert error.value.reason == "wrong_shape"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_finite_actions_are_refused(bad: float) -> None:
    rows = _rows()
    rows[1, 2] = bad
    with pytest.raises(ChunkRefused, match="row 1"):
        _chunk(rows)


@pytest.mark.parametrize("changes", [{"dt": 0.0}, {"dt": math.nan}, {"stamp_s": math.inf}])
def test_bad_times_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ChunkRefused):
        _chunk(_rows(), **changes)


def test_a_quaternion_in_another_order_or_scale_is_refused_or_normalised() -> None:
    rows = _rows()
    rows[0, 3:7] *= 1.005
    assert np.linalg.norm(_chunk(rows).actions[0, 3:7]) == pytest.approx(1.0)
    rows[0, 3:7] = 0.0
    with pytest.raises(ChunkRefused) as error:
        _chunk(rows)
    assert error.value.reason == "bad_quaternion"


def test_a_chunk_does_not_follow_its_maker_s_array() -> None:
    rows = _rows()
    chunk = _chunk(rows)
    rows[:] = 0
    assert chunk.actions[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        chunk.actions[0, 0] = 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"instruction": "  "},
        {"position": [0.1, 0.2]},
        {"position": [0.1, 0.2, math.nan]},
        {"angle": math.inf},
        {"horizon_s": 0.0},
        {"horizon_s": 601.0},
    ],
)
def test_an_invocation_refuses_nonsense_with_a_reason(arguments: dict) -> None:
    with pytest.raises(Rejected) as error:
        Invocation(**({"family": Family.REACH, "instruction": "reach the cube"} | arguments))
    assert error.value.reason == "bad_argument"


def test_invocations_have_ids_of_their_own() -> None:
    ids = {Invocation(Family.REACH, "reach").id for _ in range(1000)}
    assert len(ids) == 1000


def test_every_family_is_defined_once() -> None:
    assert set(FAMILIES) == set(Family)
    assert len(FAMILIES) == 11


def test_outcomes_spell_their_names() -> None:
    assert all(outcome.value == outcome.name == str(outcome) for outcome in Outcome)


def test_a_manual_clock_never_goes_back() -> None:
    clock = ManualClock(5.0)
    clock.sleep(0.5)
    assert clock.now() == 5.5
    with pytest.raises(ValueError, match="never goes back"):
        clock.advance(-0.1)
