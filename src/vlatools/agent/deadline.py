"""A cancel token that also ends when the task's time is up."""

from __future__ import annotations

from vlatools.core import CancelToken, Clock


class DeadlineToken(CancelToken):
    """Latched by its parent, or by the clock: tools then stop the arm exactly as for a cancel."""

    DEADLINE = "deadline"

    def __init__(self, parent: CancelToken, clock: Clock, deadline_s: float) -> None:
        super().__init__()
        self._parent = parent
        self._clock = clock
        self._deadline_s = deadline_s

    @property
    def canceled(self) -> bool:
        """True once the parent was canceled or the deadline has passed."""
        if self._parent.canceled:
            self.cancel(self._parent.reason)
        elif self._clock.now() >= self._deadline_s:
            self.cancel(self.DEADLINE)
        return super().canceled

    @property
    def reason(self) -> str:
        """Empty, ``cancel``, ``preempt`` or ``deadline``."""
        _ = self.canceled
        return super().reason
