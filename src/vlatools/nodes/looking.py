"""One look, shared by the nodes that look: after standstill if asked, a frame exposed from now on, bounded and cancelable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vlatools.camera.ports import RgbdCamera, RgbdFrame
from vlatools.core import CancelToken, Outcome, StaleData
from vlatools.nodes.standstill import Standstill
from vlatools.shared_clock import lab_now

DEFAULT_TIMEOUT_S = 5.0
MAX_TIMEOUT_S = 60.0
_SLICE_S = 0.1


@dataclass(frozen=True)
class Look:
    """How a look ended: COMPLETED with a frame, or another outcome with its message."""

    outcome: Outcome
    message: str = ""
    frame: RgbdFrame | None = None


def look(
    camera: RgbdCamera,
    standstill: Standstill | None,
    timeout_s: float,
    cancel: CancelToken,
    on_phase: Callable[[str, float], None],
) -> Look:
    """Take one frame.

    Args:
        camera: where from.
        standstill: wait for the arm to stand still first; None does not.
        timeout_s: of the whole look; 0 means 5 s.
        cancel: of the goal.
        on_phase: told what is waited for, and the seconds since the start.
    """
    start = lab_now()
    timeout_s = min(timeout_s, MAX_TIMEOUT_S) if timeout_s > 0 else DEFAULT_TIMEOUT_S
    deadline = start + timeout_s
    since_s = start
    if standstill is not None:
        on_phase("settling", 0.0)
        settled = standstill.wait(timeout_s, cancel)
        if cancel.canceled:
            return Look(Outcome.CANCELED, "canceled while the arm was settling")
        if settled.since_s is None:
            return Look(Outcome.TIMEOUT, settled.reason)
        since_s = settled.since_s
    stale: StaleData | None = None
    while not cancel.canceled:
        on_phase("waiting for a frame", lab_now() - start)
        try:
            frame = camera.wait_after(since_s, max(0.0, min(_SLICE_S, deadline - lab_now())))
            return Look(Outcome.COMPLETED, "", frame)
        except StaleData as error:
            stale = error
        if lab_now() >= deadline:
            return Look(Outcome.STALE_OBSERVATION, f"no frame within {timeout_s:.1f} s: {stale}")
    return Look(Outcome.CANCELED, "canceled while waiting for a frame")
