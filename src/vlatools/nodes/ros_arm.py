"""The arm as other nodes see it: the Arm port over the arm node's topics, actions and services."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from vlatools_interfaces.msg import ActionChunk as ActionChunkMsg
from vlatools_interfaces.msg import ArmState as ArmStateMsg
from vlatools_interfaces.srv import Recover, SetStop

from vlatools.core import ActionChunk, ArmFault, CancelToken, Outcome, Rejected, StaleData
from vlatools.nodes.calls import ActionClient, GoalCall, call_service
from vlatools.nodes.convert import (
    arm_state_from_msg,
    chunk_to_msg,
    primitive_feedback_from_msg,
    primitive_result_from_msg,
)
from vlatools.nodes.primitive_goals import PRIMITIVES, action_of
from vlatools.nodes.stamps import Stamps
from vlatools.robot.ports import ArmState, Primitive, PrimitiveFeedback, PrimitiveResult
from vlatools.shared_clock import lab_now

STATE_TOPIC = "/arm/state"
CHUNK_TOPIC = "/arm/action_chunk"
DEPTH = 10

_MAX_AGE_S = 0.3  # of a state; it is published at 20 Hz
_SERVER_S = 5.0  # for the server to be discovered
_ACK_S = 5.0  # for a goal to be acknowledged
_SILENCE_S = 4.0  # a running primitive reports every 0.1 s
_END_S = 6.0  # for the result after a cancel
_SERVICE_S = 5.0
_RECOVER_S = 15.0
_PERIOD_S = 0.02


class RosArm:
    """Implements Arm. Callbacks only store; everything else may block and is called from workers, while the node spins."""

    def __init__(self, node: Node) -> None:
        self._stamps = Stamps(node)
        self._arrived = threading.Condition()
        self._message: ArmStateMsg | None = None
        self._state: ArmState | None = None  # of _message, made when asked for
        self._invocation = ""  # of the last chunk sent
        self._subscription = node.create_subscription(ArmStateMsg, STATE_TOPIC, self._on_state, DEPTH)
        self._chunks = node.create_publisher(ActionChunkMsg, CHUNK_TOPIC, DEPTH)
        self._clients = {
            entry.name: ActionClient(node, entry.action, f"/primitives/{entry.name}") for entry in PRIMITIVES
        }
        self._stop = node.create_client(SetStop, "/arm/stop")
        self._clear_stop = node.create_client(SetStop, "/arm/clear_stop")
        self._recover = node.create_client(Recover, "/arm/recover")

    # -- state ----------------------------------------------------------------------------------------------------
    def state(self) -> ArmState:
        """See Arm; the age limit is 0.3 s."""
        state = self._newest()
        age = lab_now() - state.stamp_s if state is not None else math.inf
        if state is None or age > _MAX_AGE_S:
            fix = "is the arm node running?" if state is None else f"{state.mode.value}: {state.reason or 'see its log'}"
            raise StaleData("arm_state", age, _MAX_AGE_S, fix)
        return state

    def wait_standstill(self, timeout_s: float) -> bool:
        """See Arm; judged by a state that was measured after this call."""
        begin = lab_now()
        with self._arrived:
            while True:
                state = self._newest()
                if state is not None and state.standstill and state.stamp_s >= begin:
                    return True
                left = begin + timeout_s - lab_now()
                if left <= 0:
                    return False
                self._arrived.wait(min(left, 0.1))

    def _newest(self) -> ArmState | None:
        with self._arrived:
            if self._state is None and self._message is not None:
                self._state = arm_state_from_msg(self._message, self._stamps)
            return self._state

    def _on_state(self, message: ArmStateMsg) -> None:
        with self._arrived:
            self._message, self._state = message, None
            self._arrived.notify_all()

    # -- stream ---------------------------------------------------------------------------------------------------
    def send_chunk(self, chunk: ActionChunk) -> None:
        """See Arm; a refusal shows in ``state().stream.refused``."""
        self._invocation = chunk.invocation_id
        self._chunks.publish(chunk_to_msg(chunk, self._stamps))

    def hold(self) -> None:
        """See Arm. A chunk without rows ends the stream; it keeps its place behind the chunks before it."""
        message = ActionChunkMsg(invocation_id=self._invocation, horizon=0, dt=0.0)
        message.header.stamp = self._stamps.now()
        self._chunks.publish(message)

    # -- primitives -----------------------------------------------------------------------------------------------
    def run(
        self,
        primitive: Primitive,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[PrimitiveFeedback], None] | None = None,
    ) -> PrimitiveResult:
        """See Arm. A server that is absent, silent or gone is a result; no goal is left to run on unseen."""
        token, begin = cancel or CancelToken(), lab_now()
        entry = action_of(primitive)
        client, name = self._clients[entry.name], f"/primitives/{entry.name}"
        if token.canceled:
            preempted = token.reason == CancelToken.PREEMPT
            outcome = Outcome.PREEMPTED if preempted else Outcome.CANCELED
            return _unmeasured(outcome, token.reason, "ended before it was sent", begin)
        if not client.server_is_ready() and not client.wait_for_server(timeout_sec=_SERVER_S):
            message = f"{name} did not appear within {_SERVER_S:.0f} s: start the arm node"
            return _unmeasured(Outcome.REJECTED, "not_ready", message, begin)

        def report(message: Any) -> None:
            if on_feedback is not None:
                on_feedback(primitive_feedback_from_msg(message))

        call = GoalCall(client, entry.to_goal(primitive), report)
        lost = self._follow(call, token)
        if lost is not None:
            call.cancel()
            return _unmeasured(Outcome.FAULT, lost[0], f"{name}: {lost[1]}", begin)
        if call.refused:
            return _unmeasured(Outcome.REJECTED, "goal_rejected", f"{name} refused the goal: it is shutting down", begin)
        if not call.result.outcome:
            return _unmeasured(Outcome.FAULT, "arm_lost", f"{name} ended without a result: the arm node has died", begin)
        return primitive_result_from_msg(call.result)

    def _follow(self, call: GoalCall, token: CancelToken) -> tuple[str, str] | None:
        """Wait for the end of a goal; why it was given up, None if it ended."""
        canceled_s = math.inf
        while not call.wait(_PERIOD_S):
            now = lab_now()
            if token.canceled and math.isinf(canceled_s):
                call.cancel()
                canceled_s = now
            if not call.acknowledged:
                if now - call.sent_s > _ACK_S:
                    return "no_acknowledgement", f"the goal was not acknowledged within {_ACK_S:.0f} s"
            elif now - canceled_s > _END_S:
                return "stop_unconfirmed", f"no result within {_END_S:.0f} s of the cancel: look at the robot"
            elif math.isinf(canceled_s) and now - call.heard_s > _SILENCE_S:
                return "arm_silent", f"nothing heard for {_SILENCE_S:.0f} s: is the arm node still running?"
        return None

    # -- stop and recovery ----------------------------------------------------------------------------------------
    def stop(self, reason: str) -> bool:
        """See Arm. Raises StaleData when the arm node does not answer."""
        return bool(call_service(self._stop, SetStop.Request(reason=reason), _SERVICE_S).standstill)

    def clear_stop(self) -> None:
        """See Arm. Raises StaleData when the arm node does not answer."""
        response = call_service(self._clear_stop, SetStop.Request(), _SERVICE_S)
        if not response.success:
            raise Rejected("moving", response.message)

    def recover(self, allow_collision: bool = False) -> tuple[str, ...]:
        """See Arm. Raises StaleData when the arm node does not answer."""
        response = call_service(self._recover, Recover.Request(allow_collision=allow_collision), _RECOVER_S)
        if not response.success:
            raise ArmFault("not_cleared", response.message)
        return tuple(response.cleared)


def _unmeasured(outcome: Outcome, reason: str, message: str, begin: float) -> PrimitiveResult:
    """A result made on this side."""
    return PrimitiveResult(
        outcome=outcome,
        reason=reason,
        message=message,
        reached=False,
        final_pose=None,
        final_q=None,
        position_error=math.nan,
        orientation_error=math.nan,
        gripper_width=math.nan,
        duration_s=lab_now() - begin,
        clips=0,
    )
