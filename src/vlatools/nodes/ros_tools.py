"""RosTools: the tool families over ROS for the planner. Implements the agent's Tools port by action clients."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.action.client import ClientGoalHandle
from rclpy.node import Node
from vlatools_interfaces.action import InvokeTool

from vlatools.core import CancelToken, Family, Feedback, Invocation, InvocationResult, Outcome
from vlatools.nodes.convert import feedback_from_msg, invocation_result_from_msg, invocation_to_goal
from vlatools.nodes.stamps import Stamps

_SERVER_S = 5.0  # for the server to be discovered
_ACK_S = 5.0  # for a goal to be acknowledged
_SILENCE_S = 4.0  # a running server reports at least every 0.5 s
_END_S = 6.0  # for the result after a cancel
_PERIOD_S = 0.02


class RosTools:
    """Runs invocations on the tools node.

    ``invoke`` blocks its caller, so it is called from a worker while another thread spins ``node``. No goal is ever
    forgotten: one that is given up before it was acknowledged is canceled as soon as its acknowledgement comes.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._stamps = Stamps(node)
        self._clients = {family: ActionClient(node, InvokeTool, f"/tools/{family.value}") for family in Family}

    def invoke(
        self,
        invocation: Invocation,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[Feedback], None] | None = None,
    ) -> InvocationResult:
        """Run one invocation to its end; refusals, faults and a lost server are outcomes, not exceptions."""
        call = _Call(invocation, cancel or CancelToken(), on_feedback, self._stamps)
        if call.cancel.canceled:
            preempted = call.cancel.reason == CancelToken.PREEMPT
            return call.end(Outcome.PREEMPTED if preempted else Outcome.CANCELED, call.cancel.reason, "ended before it was sent")
        client = self._clients[invocation.family]
        if not client.server_is_ready() and not client.wait_for_server(timeout_sec=_SERVER_S):
            return call.end(
                Outcome.REJECTED, "not_ready", f"/tools/{invocation.family.value} did not appear in {_SERVER_S:.0f} s: start the tools node"
            )
        sent = client.send_goal_async(invocation_to_goal(invocation), feedback_callback=call.on_message)
        sent.add_done_callback(call.on_acknowledged)
        return call.wait()

    def close(self) -> None:
        """Release the clients."""
        for client in self._clients.values():
            client.destroy()


class _Call:
    """One goal, from its sending to its result."""

    def __init__(self, invocation: Invocation, cancel: CancelToken, on_feedback: Callable[[Feedback], None] | None, stamps: Stamps) -> None:
        self.invocation = invocation
        self.cancel = cancel
        self._on_feedback = on_feedback
        self._stamps = stamps
        self._begin_s = time.monotonic()
        self._heard_s = self._begin_s
        self._lock = threading.Lock()
        self._handle: ClientGoalHandle | None = None
        self._refused = False
        self._abandoned = False
        self._result: Any = None
        self._done = threading.Event()

    # -- called by the executor's thread --------------------------------------------------------------------------------

    def on_acknowledged(self, future: Any) -> None:
        """The goal was accepted or not."""
        handle: ClientGoalHandle = future.result()
        self._heard_s = time.monotonic()
        with self._lock:
            self._refused = not handle.accepted
            self._handle = handle if handle.accepted else None
            abandoned = self._abandoned
        if not handle.accepted:
            self._done.set()
            return
        if abandoned:  # nobody waits any more, but the goal must not run on
            handle.cancel_goal_async()
        handle.get_result_async().add_done_callback(self.on_result)

    def on_result(self, future: Any) -> None:
        """The goal has ended."""
        self._result = future.result()
        self._done.set()

    def on_message(self, message: Any) -> None:
        """Feedback came."""
        self._heard_s = time.monotonic()
        if self._on_feedback is not None and not self._done.is_set():
            self._on_feedback(feedback_from_msg(message.feedback.progress, self.invocation, self._stamps))

    # -- called by the caller's thread ----------------------------------------------------------------------------------

    def wait(self) -> InvocationResult:
        """Wait for the end, bounded; pass a cancel on as soon as there is a goal to cancel."""
        canceled_s = math.inf
        while not self._done.wait(_PERIOD_S):
            now = time.monotonic()
            with self._lock:
                handle = self._handle
            if handle is None and now - self._begin_s > _ACK_S:
                return self._abandon("tools_unreachable", f"the tools node did not acknowledge the goal within {_ACK_S:.0f} s")
            if self.cancel.canceled and handle is not None and math.isinf(canceled_s):
                handle.cancel_goal_async()
                canceled_s = now
            if now - canceled_s > _END_S:
                return self._abandon("stop_unconfirmed", f"no result within {_END_S:.0f} s of the cancel: look at the robot")
            if handle is not None and now - self._heard_s > _SILENCE_S and math.isinf(canceled_s):
                return self._abandon("tools_unreachable", f"nothing heard from the tools node for {_SILENCE_S:.0f} s: is it still running?")
        if self._refused:
            return self.end(Outcome.REJECTED, "goal_rejected", "the tools node refused the goal: it is shutting down")
        return self._conclude()

    def _conclude(self) -> InvocationResult:
        message, status = self._result.result, self._result.status
        if not message.outcome:  # the server went away in between
            return self.end(Outcome.FAULT, "tools_lost", f"the tools node ended without a result (goal status {status})")
        result = invocation_result_from_msg(message, self.invocation)
        preempted = self.cancel.reason == CancelToken.PREEMPT and status == GoalStatus.STATUS_CANCELED
        if preempted and result.outcome is Outcome.CANCELED:  # over ROS a preemption by our own caller is a cancel
            return self.end(Outcome.PREEMPTED, "preempted", "a newer goal took over", result)
        return result

    def _abandon(self, reason: str, message: str) -> InvocationResult:
        with self._lock:
            self._abandoned = True
            handle = self._handle
        if handle is not None:
            handle.cancel_goal_async()
        return self.end(Outcome.FAULT, reason, message)

    def end(self, outcome: Outcome, reason: str, message: str, measured: InvocationResult | None = None) -> InvocationResult:
        """A result made on this side, with the measured numbers of the server's where there are any."""
        return InvocationResult(
            invocation=self.invocation,
            outcome=outcome,
            reason=reason,
            message=message,
            progress=measured.progress if measured else 0.0,
            duration_s=time.monotonic() - self._begin_s,
            chunks=measured.chunks if measured else 0,
            clips=measured.clips if measured else 0,
            end_pose=measured.end_pose if measured else None,
            gripper_width=measured.gripper_width if measured else math.nan,
            gripper_holding=measured.gripper_holding if measured else False,
            standstill=measured.standstill if measured else False,
            observation_age_s=measured.observation_age_s if measured else 0.0,
            measurements=measured.measurements if measured else {},
        )
