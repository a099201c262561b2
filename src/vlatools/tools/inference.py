"""Where a policy computes: inline in lock-step, in a worker thread where the clock is real, so that it never blocks a cancel."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Ticket(Generic[T]):
    """The reply to one submitted call, now or later. A reply that nobody waits for any more is just dropped."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def run(self, call: Callable[[], T]) -> None:
        """Compute the reply."""
        try:
            self._value = call()
        except Exception as error:
            self._error = error
        self._event.set()

    @property
    def done(self) -> bool:
        """The reply is there."""
        return self._event.is_set()

    def result(self) -> T:
        """The reply; raises what the call raised. Only once ``done``."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class Inference(Protocol):
    """Runs a policy's calls one after the other."""

    @property
    def busy(self) -> bool:
        """A call is still running, also one that was given up."""
        ...

    def submit(self, call: Callable[[], T]) -> Ticket[T]:
        """Start a call."""
        ...


class InlineInference:
    """Computes at once, in the caller's thread: for lock-step and tests, where computing takes no time."""

    busy = False

    def submit(self, call: Callable[[], T]) -> Ticket[T]:
        """Compute now."""
        ticket: Ticket[T] = Ticket()
        ticket.run(call)
        return ticket


class ThreadInference:
    """Computes in one daemon thread, so that two calls never run in a policy at once."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._running = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """A call is running or waiting."""
        with self._lock:
            return self._running > 0

    def submit(self, call: Callable[[], T]) -> Ticket[T]:
        """Queue a call for the worker."""
        ticket: Ticket[T] = Ticket()
        with self._lock:
            self._running += 1
        self._calls.put(lambda: ticket.run(call))
        return ticket

    def close(self) -> None:
        """End the worker after its current call."""
        self._calls.put(None)

    def _work(self) -> None:
        while (job := self._calls.get()) is not None:
            job()
            with self._lock:
                self._running -= 1
