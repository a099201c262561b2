"""msgpack with NumPy arrays, as the openpi client and server write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from vlatools.core import VlatoolsError

_REFUSED_KINDS = "OVc"  # object, void, complex: the stock peers refuse them too


class WireError(VlatoolsError):
    """A message is not what the protocol says."""


def pack(message: Mapping[str, Any]) -> bytes:
    """Bytes of a message of plain values, NumPy arrays and NumPy scalars.

    Raises:
        WireError: a value, or an array's dtype, has no place on the wire.
    """
    try:
        packed: bytes = msgpack.packb(message, default=_encode)
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"the message cannot be written: {error}") from error
    return packed


def unpack(data: bytes) -> dict[str, Any]:
    """The message in ``data``; its arrays are copies that may be written to.

    Raises:
        WireError: not msgpack, not a map, or an array whose bytes do not fit its shape and dtype.
    """
    try:
        message = msgpack.unpackb(data, object_hook=_decode)
    except WireError:
        raise
    except Exception as error:  # msgpack raises many kinds on broken bytes, NumPy on broken shapes
        why = f"{type(error).__name__}: {error}"
        raise WireError(f"{len(data)} bytes that are no message ({why}): is the peer an openpi server?") from error
    if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
        raise WireError(f"the message is a {type(message).__name__}, it must be a map with text keys")
    return message


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in _REFUSED_KINDS:
            raise TypeError(f"an array of dtype {value.dtype} has no place on the wire: use numbers, bool or text")
        if isinstance(value, np.ndarray):
            return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    raise TypeError(f"a {type(value).__name__} has no place on the wire: {value!r:.80}")


def _decode(value: dict[Any, Any]) -> Any:
    if b"__ndarray__" not in value and b"__npgeneric__" not in value:
        return value
    dtype = np.dtype(value[b"dtype"])
    if dtype.kind in _REFUSED_KINDS:
        raise WireError(f"an array of dtype {dtype} came in: only numbers, bool and text are read")
    if b"__npgeneric__" in value:
        return dtype.type(value[b"data"])
    shape = tuple(value[b"shape"])
    if any(size < 0 for size in shape):
        raise WireError(f"an array of shape {shape} came in")
    return np.frombuffer(value[b"data"], dtype).reshape(shape).copy()
