"""Messages on the wire: what we write the published package reads, and the other way round; broken bytes are refused."""

from __future__ import annotations

import contextlib

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from openpi_client import msgpack_numpy

from vlatools.policy.openpi.codec import WireError, pack, unpack

ARRAYS = hnp.arrays(
    st.sampled_from([np.uint8, np.uint16, np.int64, np.float32, np.float64, np.bool_]), hnp.array_shapes(min_dims=0, min_side=0, max_side=5)
)
VALUES = st.one_of(ARRAYS, st.text(), st.booleans(), st.floats(), st.integers(-(2**63), 2**64 - 1), st.lists(st.integers(0, 9)))
MESSAGES = st.dictionaries(st.text(), VALUES, max_size=5)


def same(a: dict, b: dict) -> None:
    assert list(a) == list(b)
    for key in a:
        np.testing.assert_equal(b[key], a[key])
        if isinstance(a[key], np.ndarray):
            assert b[key].dtype == a[key].dtype
            assert b[key].shape == a[key].shape


@given(MESSAGES)
@settings(max_examples=200, deadline=None)
def test_both_ways_with_the_published_package(message: dict) -> None:
    same(message, msgpack_numpy.unpackb(pack(message)))
    same(message, unpack(msgpack_numpy.packb(message)))


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(unpack(data), dict)


def test_scalars_and_cut_arrays_survive_and_what_came_may_be_written_to() -> None:
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    back = unpack(pack({"a": np.float32(0.5), "b": image[::2, ::-1]}))
    assert isinstance(back["a"], np.float32)
    np.testing.assert_array_equal(back["b"], image[::2, ::-1])
    back["b"][0] = 0


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.zeros(2, complex), np.zeros(1, "V4"), np.complex64(1), object()], ids=lambda v: type(v).__name__
)
def test_what_has_no_place_on_the_wire_is_not_sent(value: object) -> None:
    with pytest.raises(WireError, match="wire"):
        pack({"a": value})


@pytest.mark.parametrize(
    "change",
    [{b"shape": (3, 3)}, {b"shape": (-1,)}, {b"dtype": "|O"}, {b"dtype": "nonsense"}, {b"data": b"123"}, {b"data": 7}, {b"shape": None}],
    ids=str,
)
def test_an_array_whose_bytes_do_not_fit_is_refused(change: dict) -> None:
    array = {b"__ndarray__": True, b"data": bytes(16), b"dtype": "<f8", b"shape": (2,)} | change
    with pytest.raises(WireError):
        unpack(msgpack.packb({"a": array}))
