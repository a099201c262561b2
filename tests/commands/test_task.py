"""A task on the graph ends for its caller, whatever becomes of the planner."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from vlatools.commands import task
from vlatools.core import Outcome


class SilentCall:
    """A goal whose planner died after it was acknowledged: no feedback, no result."""

    result = None

    def __init__(self) -> None:
        self.heard_s = time.monotonic()
        self.canceled = False

    def wait(self, timeout_s: float) -> bool:
        time.sleep(timeout_s)
        return False

    def cancel(self) -> None:
        self.canceled = True


def test_a_planner_that_dies_ends_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_SILENCE_S", 0.5)
    call = SilentCall()
    client: Any = SimpleNamespace(seen=SimpleNamespace(), run_task=lambda *_: call)
    begin = time.monotonic()
    end = task.perform(client, "put the red cube into the left bowl", record=False)
    assert time.monotonic() - begin < 3.0
    assert (end.outcome, end.reason, end.success) == (Outcome.FAULT, "planner_lost", False)
    assert call.canceled  # in case it only looked dead
