"""Waiting for the arm to stand still, for nodes that only look: by the arm's own measurement on /arm/state."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from vlatools_interfaces.msg import ArmState as ArmStateMsg

from vlatools.core import CancelToken
from vlatools.nodes.base import VlatoolsNode
from vlatools.shared_clock import lab_now

TOPIC = "/arm/state"
_MAX_AGE_S = 0.5
_SLICE_S = 0.05


@dataclass(frozen=True)
class Settled:
    """How a wait ended.

    Attributes:
        since_s: monotonic time at which the arm was measured to stand still; None if that was not seen.
        reason: why not, with what was waited for; "" if it settled.
    """

    since_s: float | None
    reason: str = ""


class Standstill:
    """Listens to /arm/state. ``wait`` is for worker threads: the node must be spinning elsewhere."""

    def __init__(self, node: VlatoolsNode) -> None:
        self._stamps = node.stamps
        self._arrived = threading.Condition()
        self._still = False
        self._stamp_s = float("-inf")
        self._subscription = node.create_subscription(ArmStateMsg, TOPIC, self._on_state, 10)

    def _on_state(self, message: ArmStateMsg) -> None:
        with self._arrived:
            self._still, self._stamp_s = bool(message.standstill), self._stamps.to_monotonic(message.header.stamp)
            self._arrived.notify_all()

    def wait(self, timeout_s: float, cancel: CancelToken) -> Settled:
        """Wait until the arm stands still; ends early when canceled.

        Args:
            timeout_s: longest wait.
            cancel: of the goal that waits.
        """
        deadline = lab_now() + timeout_s
        with self._arrived:
            while not cancel.canceled:
                age_s = lab_now() - self._stamp_s
                if self._still and age_s <= _MAX_AGE_S:
                    return Settled(self._stamp_s)
                if lab_now() >= deadline:
                    if age_s > _MAX_AGE_S:
                        old = "nothing has come" if age_s == float("inf") else f"the last state is {age_s:.1f} s old"
                        return Settled(None, f"waited {timeout_s:.1f} s for the arm's state on {TOPIC}, {old}: is the arm node running?")
                    return Settled(None, f"waited {timeout_s:.1f} s for the arm to stand still, it is still moving")
                self._arrived.wait(_SLICE_S)
        return Settled(None, "canceled")
