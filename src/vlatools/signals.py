"""Ending on SIGINT and SIGTERM without a lock: a handler runs in the main thread, wherever that happens to be."""

from __future__ import annotations

import signal
import threading
import time
import types

_SLICE_S = 0.02


class SignalEvent(threading.Event):
    """An event that a signal handler may set: the stock one holds a lock in ``set`` and in ``wait``, and a handler that comes while the
    main thread is in there, or while a handler is, would wait for itself."""

    def __init__(self) -> None:
        super().__init__()
        self._raised = False

    def set(self) -> None:
        """Raise the flag."""
        self._raised = True

    def is_set(self) -> bool:
        """Whether it is raised."""
        return self._raised

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is raised, or for ``timeout`` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._raised:
            left = _SLICE_S if end is None else end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(_SLICE_S, left))
        return self._raised


def stop_on(*numbers: signal.Signals) -> SignalEvent:
    """An event that these signals set from now on."""
    event = SignalEvent()

    def handle(_number: int, _frame: types.FrameType | None) -> None:
        event.set()

    for number in numbers:
        signal.signal(number, handle)
    return event
