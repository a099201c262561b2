"""GoalRunner: the one class under all action servers. It owns a goal's life; behaviours never touch goal handles."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle

from vlatools.core import CancelToken, Outcome, Rejected
from vlatools.nodes.base import VlatoolsNode
from vlatools.shared_clock import lab_now

G = TypeVar("G")
R = TypeVar("R")
F = TypeVar("F")

FEEDBACK_HZ = 15.0
PREEMPT_S = 5.0


class Slot:
    """What at most one goal may use at a time, over all runners that share it (the arm, the tools, the planner).

    A newer goal preempts the ones before and waits, bounded, until they have ended.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._newest: _Running | None = None
        self._owner: _Running | None = None

    def take(self, running: _Running, timeout_s: float) -> bool:
        """Preempt whoever has the slot or waits for it; True once ``running`` has it, False if the owner did not end in time."""
        with self._changed:
            for older in (self._newest, self._owner):
                if older is not None:
                    older.cancel.cancel(CancelToken.PREEMPT)
            self._newest = running
            if self._changed.wait_for(lambda: self._owner is None, timeout_s):
                self._owner = running
                return True
            return False

    def leave(self, running: _Running) -> None:
        """``running`` has ended; idempotent, and without effect for one that never got the slot."""
        with self._changed:
            if self._owner is running:
                self._owner = None
            if self._newest is running:
                self._newest = None
            self._changed.notify_all()


class _Running:
    """One goal in execution."""

    def __init__(self) -> None:
        self.cancel = CancelToken()


class GoalRunner(Generic[G, R, F]):
    """An action server whose goals run in worker threads.

    * Every goal is accepted; what cannot be served ends ABORTED with ``outcome`` REJECTED and the reason, because a
      rejected ROS goal cannot carry one.
    * Cancel is a latch that ``execute`` looks at; canceling again changes nothing.
    * CANCELED is reported only when ``execute`` returns it, which it does only after measured standstill.
    * Exactly one terminal transition is made, in one place.
    * Feedback is thinned to 15 Hz; the latest wins, order is kept.

    Args:
        node: owner; it lists the runner for shutdown.
        action: action type; its result has ``outcome``, ``message`` and, where it has one, ``reason``.
        name: action name.
        execute: ``(goal, cancel, feedback) -> result``; runs in a worker; may raise Rejected.
        slot: shared exclusive slot, or None for goals that may run side by side.
        on_result: called with goal and result after each end, from the worker (for mirrors).
    """

    def __init__(
        self,
        node: VlatoolsNode,
        action: Any,
        name: str,
        execute: Callable[[G, CancelToken, Callable[[F], None]], R],
        *,
        slot: Slot | None = None,
        on_result: Callable[[G, R], None] | None = None,
    ) -> None:
        self._node = node
        self._action = action
        self._execute = execute
        self._slot = slot
        self._on_result = on_result
        self._running: dict[bytes, _Running] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._server = ActionServer(
            node,
            action,
            name,
            execute_callback=self._run,
            goal_callback=lambda _goal: GoalResponse.ACCEPT,
            cancel_callback=self._on_cancel,
        )
        node.runners.append(self)

    @property
    def active(self) -> bool:
        """Whether a goal is running."""
        with self._lock:
            return bool(self._running)

    def end_all(self) -> None:
        """Cancel all goals and refuse new ones (shutdown)."""
        with self._lock:
            self._closing = True
            running = list(self._running.values())
        for goal in running:
            goal.cancel.cancel()

    def _on_cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        with self._lock:
            running = self._running.get(bytes(handle.goal_id.uuid))
        if running is not None:
            running.cancel.cancel()
        return CancelResponse.ACCEPT

    async def _run(self, handle: ServerGoalHandle) -> R:
        running = _Running()
        with self._lock:
            self._running[bytes(handle.goal_id.uuid)] = running
        if handle.is_cancel_requested:  # canceled between acceptance and here
            running.cancel.cancel()
        feedback = _Feedback(handle)
        try:
            result: R = await self._node.in_worker(lambda: self._work(handle.request, running, feedback))
        finally:
            with self._lock:
                self._running.pop(bytes(handle.goal_id.uuid), None)
        outcome = getattr(result, "outcome", "")
        if outcome == Outcome.COMPLETED.value:
            handle.succeed()
        elif outcome == Outcome.CANCELED.value and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        return result

    def _work(self, goal: G, running: _Running, feedback: _Feedback) -> R:
        try:
            if self._closing:
                raise Rejected("shutting_down", f"{self._node.get_name()} is shutting down: start it again")
            if self._slot is not None and not self._slot.take(running, PREEMPT_S):
                raise Rejected(
                    "busy", f"the goal before did not end within {PREEMPT_S:.0f} s of being preempted: see its node's log"
                )
            result = self._execute(goal, running.cancel, feedback)
        except Rejected as error:
            result = self.failure(Outcome.REJECTED, error.reason, str(error))
        except Exception as error:
            self._node.get_logger().error(f"goal failed:\n{traceback.format_exc()}")
            result = self.failure(Outcome.FAULT, "internal_error", f"{type(error).__name__}: {error}")
        finally:
            if self._slot is not None:
                self._slot.leave(running)
        feedback.flush()
        if self._on_result is not None:
            try:
                self._on_result(goal, result)
            except Exception as error:
                self._node.get_logger().error(f"mirror of a result failed: {error}")
        return result

    def failure(self, outcome: Outcome, reason: str, message: str) -> R:
        """A result that says only how it ended."""
        result: Any = self._action.Result()
        result.outcome = outcome.value
        result.message = message
        if hasattr(result, "reason"):
            result.reason = reason
        return result


class _Feedback:
    """Publishes at most FEEDBACK_HZ; what came in between is replaced by what came last."""

    def __init__(self, handle: ServerGoalHandle) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._last_s = float("-inf")
        self._pending: Any = None

    def __call__(self, message: Any) -> None:
        with self._lock:
            self._pending = message
            if lab_now() - self._last_s >= 1.0 / FEEDBACK_HZ:
                self._send()

    def flush(self) -> None:
        """Send what is pending."""
        with self._lock:
            self._send()

    def _send(self) -> None:
        if self._pending is not None and self._handle.is_active:
            self._handle.publish_feedback(self._pending)
            self._pending = None
            self._last_s = lab_now()
