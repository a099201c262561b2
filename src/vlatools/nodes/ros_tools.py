"""RosTools: the tool families over ROS for the planner. Implements the agent's Tools port by action clients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from vlatools_interfaces.action import InvokeTool

from vlatools.core import CancelToken, Family, Feedback, Invocation, InvocationResult, Outcome
from vlatools.nodes.calls import ActionClient, GoalCall
from vlatools.nodes.convert import feedback_from_msg, invocation_result_from_msg, invocation_to_goal
from vlatools.nodes.stamps import Stamps
from vlatools.shared_clock import lab_now

_SERVER_S = 5.0  # for the server to be discovered
_ACK_S = 5.0  # for a goal to be acknowledged
_SILENCE_S = 4.0  # a running server reports at least every 0.5 s
_END_S = 6.0  # for the result after a cancel
_PERIOD_S = 0.02


class RosTools:
    """Runs invocations on the tools node.

    ``invoke`` blocks its caller, so it is called from a worker while another thread spins ``node``.
    """

    def __init__(self, node: Node) -> None:
        self._stamps = Stamps(node)
        self._clients = {family: ActionClient(node, InvokeTool, f"/tools/{family.value}") for family in Family}

    def invoke(
        self,
        invocation: Invocation,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[Feedback], None] | None = None,
    ) -> InvocationResult:
        """Run one invocation to its end; refusals, faults and a lost server are outcomes, not exceptions."""
        cancel = cancel or CancelToken()
        begin_s = lab_now()

        def end(outcome: Outcome, reason: str, message: str) -> InvocationResult:
            return _unmeasured(invocation, outcome, reason, message, lab_now() - begin_s)

        if cancel.canceled:
            preempted = cancel.reason == CancelToken.PREEMPT
            return end(Outcome.PREEMPTED if preempted else Outcome.CANCELED, cancel.reason, "ended before it was sent")
        client = self._clients[invocation.family]
        name = f"/tools/{invocation.family.value}"
        if not client.server_is_ready() and not client.wait_for_server(timeout_sec=_SERVER_S):
            return end(Outcome.REJECTED, "not_ready", f"{name} did not appear within {_SERVER_S:.0f} s: start the tools node")

        def report(message: Any) -> None:
            if on_feedback is not None:
                on_feedback(feedback_from_msg(message.progress, invocation, self._stamps))

        call = GoalCall(client, invocation_to_goal(invocation), report)
        why = self._follow(call, cancel, name)
        if why:
            call.cancel()
            return end(Outcome.FAULT, "stop_unconfirmed" if cancel.canceled else "tools_unreachable", why)
        if call.refused:
            return end(Outcome.REJECTED, "not_ready", f"{name} refused the goal: the tools node is shutting down")
        if not call.result.outcome:
            return end(Outcome.FAULT, "tools_unreachable", f"{name} ended without a result (status {call.status})")
        return invocation_result_from_msg(call.result, invocation)

    @staticmethod
    def _follow(call: GoalCall, cancel: CancelToken, name: str) -> str:
        """Wait for the end, bounded, passing a cancel on; "" at the end, else why it was given up."""
        canceled_s = math.inf
        while not call.wait(_PERIOD_S):
            now = lab_now()
            if cancel.canceled and math.isinf(canceled_s):
                call.cancel()
                canceled_s = now
            if not call.acknowledged and now - call.sent_s > _ACK_S:
                return f"{name} did not acknowledge the goal within {_ACK_S:.0f} s: is the tools node overloaded or gone?"
            if now - canceled_s > _END_S:
                return f"{name} gave no result within {_END_S:.0f} s of the cancel: look at the robot before going on"
            if call.acknowledged and math.isinf(canceled_s) and now - call.heard_s > _SILENCE_S:
                return f"{name} was not heard for {_SILENCE_S:.0f} s: is the tools node still running?"
        return ""


def _unmeasured(invocation: Invocation, outcome: Outcome, reason: str, message: str, duration_s: float) -> InvocationResult:
    """A result made on this side: nothing is known of the robot."""
    return InvocationResult(
        invocation=invocation,
        outcome=outcome,
        reason=reason,
        message=message,
        progress=0.0,
        duration_s=duration_s,
        chunks=0,
        clips=0,
        end_pose=None,
        gripper_width=math.nan,
        gripper_holding=False,
        standstill=False,
        observation_age_s=0.0,
    )
