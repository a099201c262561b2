"""Cancel as a latch on the goal: set once, from any thread, looked at in every control period."""

import threading


class CancelToken:
    """One-way latch. Canceling twice is the same as once; the first reason is kept.

    A token belongs to exactly one goal, so that a cancel never reaches the goal after it.
    """

    CANCEL = "cancel"
    PREEMPT = "preempt"

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._reason = ""

    def cancel(self, reason: str = CANCEL) -> None:
        """Latch the token; ``reason`` is ``cancel`` or ``preempt``."""
        with self._lock:
            if not self._event.is_set():
                self._reason = reason
                self._event.set()

    @property
    def canceled(self) -> bool:
        """True once the token has been latched."""
        return self._event.is_set()

    @property
    def reason(self) -> str:
        """Empty, ``cancel`` or ``preempt``."""
        return self._reason
