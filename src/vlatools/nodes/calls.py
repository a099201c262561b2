"""An action client, one goal of it from its sending to its result, and a service call. For callers that may block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import rclpy.action

from vlatools.core import StaleData
from vlatools.shared_clock import lab_now


class ActionClient(rclpy.action.ActionClient):
    """rclpy's, but may be made while another thread spins the node: rclpy's own shows itself to the executor before it has
    its lock, which ends the spinning thread with an AttributeError."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._lock = threading.Lock()
        super().__init__(*args, **options)


class GoalCall:
    """Sends a goal and follows it. No goal is ever forgotten: one given up before it was acknowledged is canceled as
    soon as its acknowledgement comes. Another thread spins the node; the caller waits.

    Attributes:
        heard_s: monotonic time at which the server was last heard (acknowledgement or feedback).
        acknowledged: the server has accepted the goal.
        refused: the server has refused the goal.
        result: the result message once ``done``, else None.
        status: the goal's final status (action_msgs/GoalStatus).
    """

    def __init__(self, client: ActionClient, goal: Any, on_feedback: Callable[[Any], None] | None = None) -> None:
        self._on_feedback = on_feedback
        self._lock = threading.Lock()
        self._handle: Any = None
        self._cancel_wanted = False
        self._done = threading.Event()
        self.sent_s = self.heard_s = lab_now()
        self.refused = False
        self.result: Any = None
        self.status = 0
        client.send_goal_async(goal, feedback_callback=self._feedback).add_done_callback(self._acknowledged)

    @property
    def acknowledged(self) -> bool:
        """The server has accepted the goal."""
        with self._lock:
            return self._handle is not None

    @property
    def done(self) -> bool:
        """The goal has ended or was refused."""
        return self._done.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; False when it did not come in time."""
        return self._done.wait(timeout_s)

    def cancel(self) -> None:
        """Cancel exactly this goal, now or as soon as it is acknowledged. Idempotent."""
        with self._lock:
            first, self._cancel_wanted = not self._cancel_wanted, True
            handle = self._handle
        if first and handle is not None:
            handle.cancel_goal_async()

    def _acknowledged(self, future: Any) -> None:
        handle = future.result()
        self.heard_s = lab_now()
        if not handle.accepted:
            self.refused = True
            self._done.set()
            return
        with self._lock:
            self._handle = handle
            cancel = self._cancel_wanted
        handle.get_result_async().add_done_callback(self._ended)
        if cancel:
            handle.cancel_goal_async()

    def _ended(self, future: Any) -> None:
        response = future.result()
        self.result, self.status = response.result, response.status
        self._done.set()

    def _feedback(self, message: Any) -> None:
        self.heard_s = lab_now()
        if self._on_feedback is not None and not self._done.is_set():
            self._on_feedback(message.feedback)


def call_service(client: Any, request: Any, timeout_s: float) -> Any:
    """Call a service and wait, bounded, while another thread spins.

    Raises:
        StaleData: the service is absent or gave no answer in time; names it.
    """
    begin_s = lab_now()
    if not client.service_is_ready() and not client.wait_for_service(timeout_sec=timeout_s):
        raise StaleData(client.srv_name, float("inf"), timeout_s, "the service is absent: start its node")
    done = threading.Event()
    future = client.call_async(request)
    future.add_done_callback(lambda _future: done.set())
    if not done.wait(max(0.1, timeout_s - (lab_now() - begin_s))):
        client.remove_pending_request(future)
        raise StaleData(client.srv_name, lab_now() - begin_s, timeout_s, "no answer: see the log of its node")
    return future.result()
