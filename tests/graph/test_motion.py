"""Cancel, stop and preemption over the graph: what is reported is what the arm does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import Point
from vlatools_interfaces.action import Home, InvokeTool, MoveTo

from vlatools.nodes.calls import ActionClient, GoalCall

HIGH, LOW = Point(x=0.45, y=0.0, z=0.45), Point(x=0.45, y=0.0, z=0.25)


@pytest.fixture(scope="module")
def actions(lab: Any) -> Iterator[dict[str, ActionClient]]:
    node = lab.client.node
    made = {
        "move_to": ActionClient(node, MoveTo, "/primitives/move_to"),
        "home": ActionClient(node, Home, "/primitives/home"),
        "reach": ActionClient(node, InvokeTool, "/tools/reach"),
        "flip": ActionClient(node, InvokeTool, "/tools/flip"),
    }
    for client in made.values():
        assert client.wait_for_server(timeout_sec=20.0)
    yield made
    for client in made.values():
        client.destroy()


@pytest.fixture(autouse=True)
def at_home(lab: Any, actions: dict[str, ActionClient]) -> None:
    lab.wait_ready()
    assert ended(GoalCall(actions["home"], Home.Goal())).result.outcome == "COMPLETED"


def ended(call: GoalCall, limit_s: float = 30.0) -> GoalCall:
    assert call.wait(limit_s), "the goal did not end"
    return call


def wait_moving(lab: Any) -> None:
    begin = time.monotonic()
    while lab.client.seen.arm.standstill:
        assert time.monotonic() - begin < 5.0, "the arm did not start to move"
        time.sleep(0.01)


def speed(lab: Any) -> float:
    return max(abs(v) for v in lab.client.seen.arm.dq)


def test_a_canceled_primitive_stands_still_and_the_next_goal_works(lab: Any, actions: dict[str, ActionClient]) -> None:
    call = GoalCall(actions["move_to"], MoveTo.Goal(position=LOW, speed_scale=0.3))
    wait_moving(lab)
    call.cancel()
    ended(call)
    assert (call.status, call.result.outcome) == (GoalStatus.STATUS_CANCELED, "CANCELED")
    time.sleep(0.2)  # a state from after the result
    assert lab.client.seen.arm.standstill
    after = list(lab.client.seen.arm.q)
    time.sleep(0.5)
    assert max(abs(a - b) for a, b in zip(after, lab.client.seen.arm.q, strict=True)) < 0.01, "it moved after CANCELED"
    assert ended(GoalCall(actions["move_to"], MoveTo.Goal(position=HIGH))).result.outcome == "COMPLETED"


def test_a_newer_goal_preempts_the_one_before(lab: Any, actions: dict[str, ActionClient]) -> None:
    older = GoalCall(actions["move_to"], MoveTo.Goal(position=LOW, speed_scale=0.2))
    wait_moving(lab)
    newer = GoalCall(actions["move_to"], MoveTo.Goal(position=HIGH))
    assert (ended(older).status, older.result.outcome) == (GoalStatus.STATUS_ABORTED, "PREEMPTED")
    assert ended(newer).result.outcome == "COMPLETED"


def test_a_canceled_tool_stands_still(lab: Any, actions: dict[str, ActionClient]) -> None:
    call = GoalCall(actions["reach"], InvokeTool.Goal(family="reach", instruction="reach the red cube", object="red cube"))
    wait_moving(lab)
    call.cancel()
    ended(call)
    assert (call.status, call.result.outcome) == (GoalStatus.STATUS_CANCELED, "CANCELED")
    time.sleep(0.2)
    assert lab.client.seen.arm.standstill


def test_a_family_that_no_policy_serves_is_refused_with_the_reason(lab: Any, actions: dict[str, ActionClient]) -> None:
    call = ended(GoalCall(actions["flip"], InvokeTool.Goal(family="flip", instruction="flip the cup")))
    assert (call.status, call.result.outcome) == (GoalStatus.STATUS_ABORTED, "REJECTED")
    assert "reach" in call.result.message  # names what there is


def test_stop_latches_until_a_person_clears_it(lab: Any, actions: dict[str, ActionClient]) -> None:
    call = GoalCall(actions["move_to"], MoveTo.Goal(position=LOW, speed_scale=0.3))
    wait_moving(lab)
    answer = lab.client.stop("test")
    assert answer.success
    assert answer.standstill
    assert ended(call).result.outcome != "COMPLETED"
    refused = ended(GoalCall(actions["move_to"], MoveTo.Goal(position=HIGH))).result
    assert refused.outcome == "REJECTED"
    assert "clear_stop" in refused.message
    assert lab.client.clear_stop("test").success
    lab.wait_ready()
    assert ended(GoalCall(actions["move_to"], MoveTo.Goal(position=HIGH))).result.outcome == "COMPLETED"


def test_a_task_is_canceled_with_the_arm_at_rest(lab: Any) -> None:
    lab.control.reset(0, "simple")
    lab.wait_ready()
    call = lab.client.run_task("put the red cube into the left bowl", "simple")
    wait_moving(lab)
    call.cancel()
    ended(call)
    assert (call.status, call.result.outcome) == (GoalStatus.STATUS_CANCELED, "CANCELED")
    time.sleep(0.2)
    assert lab.client.seen.arm.standstill
