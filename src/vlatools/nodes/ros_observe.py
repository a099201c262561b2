"""RosObserve: a look at the table over ROS, for the planner: /perception/locate after the arm has settled."""

from __future__ import annotations

from typing import Any

from vlatools_interfaces.action import Locate

from vlatools.core import ArmFault, Outcome, StaleData
from vlatools.nodes.base import VlatoolsNode
from vlatools.nodes.calls import ActionClient, GoalCall
from vlatools.nodes.convert import scene_from_msg
from vlatools.perception.ports import Scene
from vlatools.shared_clock import lab_now

_SERVER_S = 5.0  # for the server to be discovered
_LOCATE_S = 5.0  # given to the perception node
_MARGIN_S = 3.0  # beyond that, for acknowledgement and result
_TRIES = 2


class RosObserve:
    """Implements the agent's Observe port. Blocks its caller, so it is called from a worker."""

    def __init__(self, node: VlatoolsNode) -> None:
        self._stamps = node.stamps
        self._client = ActionClient(node, Locate, "/perception/locate")

    def __call__(self) -> Scene:
        """What stands on the table now.

        Raises:
            StaleData: ``perception`` did not answer, or ``camera`` when it had no fresh frame; tried twice.
            ArmFault: perception reports a fault.
        """
        if not self._client.server_is_ready() and not self._client.wait_for_server(timeout_sec=_SERVER_S):
            raise StaleData(
                "perception", float("inf"), _SERVER_S, "/perception/locate is absent: start the perception node"
            )
        for attempt in range(1, _TRIES + 1):
            started_s = lab_now()
            result = self._locate()
            if result is None:
                waited_s = lab_now() - started_s
                problem: Exception = StaleData(
                    "perception",
                    waited_s,
                    _LOCATE_S + _MARGIN_S,
                    "/perception/locate gave no result: is the node running?",
                )
            elif result.outcome == Outcome.COMPLETED.value:
                return scene_from_msg(result, self._stamps)
            elif result.outcome == Outcome.STALE_OBSERVATION.value:
                problem = StaleData("camera", lab_now() - started_s, _LOCATE_S, result.message)
            else:
                problem = ArmFault("perception", f"/perception/locate ended {result.outcome}: {result.message}")
            if attempt == _TRIES:
                raise problem
        raise AssertionError("the loop returns or raises")

    def _locate(self) -> Any:
        """One goal: its result, or None when there was none in time; then the goal is canceled, late or not."""
        call = GoalCall(self._client, Locate.Goal(wait_for_standstill=True, timeout=_LOCATE_S))
        if not call.wait(_LOCATE_S + _MARGIN_S):
            call.cancel()
        return call.result

    def close(self) -> None:
        """Release the client."""
        self._client.destroy()
