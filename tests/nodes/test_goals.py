"""GoalRunner: cancel, preempt, races, reasons, feedback, shutdown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from rclpy.node import Node
from vlatools_interfaces.action import Home

from vlatools.core import CancelToken, Outcome, Rejected
from vlatools.nodes.base import VlatoolsNode
from vlatools.nodes.calls import ActionClient, GoalCall
from vlatools.nodes.goals import FEEDBACK_HZ, GoalRunner, Slot


@dataclass(frozen=True)
class NoParams:
    """No parameters."""


class Server(VlatoolsNode):
    """Two actions that share a slot; what they do is set by the test."""

    NAME = "goal_runner_test"
    PARAMS = NoParams

    def __init__(self) -> None:
        super().__init__()
        self.behaviour: Callable[[Any, CancelToken, Callable[[Any], None]], Any] = succeed
        slot = Slot()
        for name in ("/test/one", "/test/two"):
            GoalRunner[Any, Any, Any](self, Home, name, lambda g, c, f: self.behaviour(g, c, f), slot=slot)


def succeed(*_: Any) -> Home.Result:
    """Completes at once."""
    return done(Outcome.COMPLETED)


def done(outcome: Outcome, reason: str = "") -> Home.Result:
    """A result."""
    return Home.Result(outcome=outcome.value, reason=reason)


def until_canceled(_goal: Any, cancel: CancelToken, _feedback: Any) -> Home.Result:
    """Works until it is canceled, as every behaviour does."""
    while not cancel.canceled:
        time.sleep(0.005)
    return done(Outcome.PREEMPTED, "preempted") if cancel.reason == CancelToken.PREEMPT else done(Outcome.CANCELED, "canceled")


@pytest.fixture(scope="module")
def graph(module_spinner: Any) -> Iterator[tuple[Server, tuple[ActionClient, ActionClient]]]:
    """One server and one client for all tests here: discovery takes long."""
    server, node = Server(), Node("goal_runner_client")
    module_spinner.executor.add_node(server)
    module_spinner.executor.add_node(node)
    pair = (ActionClient(node, Home, "/test/one"), ActionClient(node, Home, "/test/two"))
    for client in pair:
        assert client.wait_for_server(timeout_sec=10.0)
    time.sleep(0.5)  # the server has to discover the client's reply readers as well
    yield server, pair
    server.end_goals()
    for each in (server, node):
        module_spinner.executor.remove_node(each)
        each.destroy_node()


@pytest.fixture
def server(graph: tuple[Server, Any]) -> Server:
    graph[0].behaviour = succeed
    return graph[0]


@pytest.fixture
def clients(graph: tuple[Any, tuple[ActionClient, ActionClient]]) -> tuple[ActionClient, ActionClient]:
    return graph[1]


def ended(call: GoalCall, timeout_s: float = 5.0) -> GoalCall:
    assert call.wait(timeout_s), "the goal did not end"
    return call


def test_completed_succeeds(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    call = ended(GoalCall(clients[0], Home.Goal()))
    assert (call.status, call.result.outcome) == (GoalStatus.STATUS_SUCCEEDED, "COMPLETED")


def test_cancel_reaches_a_blocking_goal_within_300_ms(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    server.behaviour = until_canceled
    call = GoalCall(clients[0], Home.Goal())
    while not server.busy:
        time.sleep(0.005)
    begin = time.monotonic()
    for _ in range(3):  # canceling again changes nothing
        call.cancel()
    ended(call)
    assert time.monotonic() - begin < 0.3
    assert (call.status, call.result.outcome) == (GoalStatus.STATUS_CANCELED, "CANCELED")


def test_cancel_before_the_acknowledgement_still_cancels(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    server.behaviour = until_canceled
    call = GoalCall(clients[0], Home.Goal())
    call.cancel()
    assert ended(call).status == GoalStatus.STATUS_CANCELED


def test_unconfirmed_stop_is_not_reported_as_canceled(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    def unsure(goal: Any, cancel: CancelToken, feedback: Any) -> Home.Result:
        until_canceled(goal, cancel, feedback)
        return done(Outcome.FAULT, "stop_unconfirmed")

    server.behaviour = unsure
    call = GoalCall(clients[0], Home.Goal())
    call.cancel()
    assert (ended(call).status, call.result.reason) == (GoalStatus.STATUS_ABORTED, "stop_unconfirmed")


def test_newer_goal_of_the_slot_preempts_and_the_next_is_not_stillborn(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    server.behaviour = until_canceled
    older = GoalCall(clients[0], Home.Goal())
    while not server.busy:
        time.sleep(0.005)
    server.behaviour = succeed
    newer = ended(GoalCall(clients[1], Home.Goal()))
    assert (ended(older).status, older.result.outcome) == (GoalStatus.STATUS_ABORTED, "PREEMPTED")
    assert newer.result.outcome == "COMPLETED"


def test_of_three_goals_only_one_works_at_a_time(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    working, most, order = 0, 0, []

    def slow_to_stop(goal: Any, cancel: CancelToken, feedback: Any) -> Home.Result:
        nonlocal working, most
        working += 1
        most = max(most, working)
        until_canceled(goal, cancel, feedback) if goal.timeout != 3 else None
        time.sleep(0.3)
        working -= 1
        order.append(goal.timeout)
        return done(Outcome.PREEMPTED, "preempted") if cancel.canceled else done(Outcome.COMPLETED)

    server.behaviour = slow_to_stop
    calls = []
    for number in (1.0, 2.0, 3.0):
        calls.append(GoalCall(clients[int(number) % 2], Home.Goal(timeout=number)))
        while not calls[-1].acknowledged:
            time.sleep(0.005)
        time.sleep(0.05)
    outcomes = [ended(call).result.outcome for call in calls]
    assert outcomes == ["PREEMPTED", "PREEMPTED", "COMPLETED"]
    assert most == 1
    assert order[0] == 1.0  # the second, preempted while it waited, and the third come when the first has ended


def test_rejection_carries_reason_and_fix(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    def refuse(*_: Any) -> Home.Result:
        raise Rejected("not_ready", "the arm is in REFLEX: call /arm/recover")

    server.behaviour = refuse
    call = ended(GoalCall(clients[0], Home.Goal()))
    assert (call.status, call.result.outcome, call.result.reason) == (GoalStatus.STATUS_ABORTED, "REJECTED", "not_ready")
    assert "recover" in call.result.message


def test_an_exception_is_a_fault_and_the_server_lives(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    def broken(*_: Any) -> Home.Result:
        raise ValueError("boom")

    server.behaviour = broken
    call = ended(GoalCall(clients[0], Home.Goal()))
    assert (call.result.outcome, call.result.reason) == ("FAULT", "internal_error")
    assert "boom" in call.result.message
    server.behaviour = succeed
    assert ended(GoalCall(clients[0], Home.Goal())).result.outcome == "COMPLETED"


@pytest.mark.slow
@pytest.mark.parametrize("looks_at_cancel", [False, True], ids=["late_cancel", "cancel_wins"])
def test_race_of_cancel_and_success_ends_each_goal_exactly_once(
    server: Server, clients: tuple[ActionClient, ActionClient], looks_at_cancel: bool
) -> None:
    def short(_goal: Any, cancel: CancelToken, _feedback: Any) -> Home.Result:
        time.sleep(0.002)
        return done(Outcome.CANCELED if looks_at_cancel and cancel.canceled else Outcome.COMPLETED)

    server.behaviour = short
    expected = {"COMPLETED": GoalStatus.STATUS_SUCCEEDED, "CANCELED": GoalStatus.STATUS_CANCELED}
    for round_number in range(500):
        call = GoalCall(clients[0], Home.Goal())
        time.sleep(0.0002 * (round_number % 20))
        call.cancel()
        ended(call)
        assert call.status == expected[call.result.outcome]
        assert looks_at_cancel or call.result.outcome == "COMPLETED"  # the work was done: a late cancel changes nothing


def test_feedback_is_thinned_in_order_and_the_last_arrives(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    def chatty(_goal: Any, _cancel: CancelToken, feedback: Callable[[Any], None]) -> Home.Result:
        for number in range(500):
            feedback(Home.Feedback(elapsed=float(number)))
            time.sleep(0.001)
        return done(Outcome.COMPLETED)

    server.behaviour = chatty
    heard: list[float] = []
    begin = time.monotonic()
    ended(GoalCall(clients[0], Home.Goal(), lambda f: heard.append(f.elapsed)))
    took = time.monotonic() - begin
    assert 2 <= len(heard) <= took * FEEDBACK_HZ + 3
    assert heard == sorted(heard)


def test_a_goal_that_ignores_preemption_keeps_the_newer_one_out(
    server: Server, clients: tuple[ActionClient, ActionClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr("vlatools.nodes.goals.PREEMPT_S", 0.2)

    def deaf(*_: Any) -> Home.Result:
        release.wait(5.0)
        return done(Outcome.COMPLETED)

    server.behaviour = deaf
    older = GoalCall(clients[0], Home.Goal())
    while not server.busy:
        time.sleep(0.005)
    newer = ended(GoalCall(clients[1], Home.Goal()))
    assert (newer.result.outcome, newer.result.reason) == ("REJECTED", "busy")
    release.set()
    assert ended(older).result.outcome == "COMPLETED"


def test_shutdown_ends_running_goals_with_a_result(server: Server, clients: tuple[ActionClient, ActionClient]) -> None:
    started = threading.Event()

    def work(goal: Any, cancel: CancelToken, feedback: Any) -> Home.Result:
        started.set()
        return until_canceled(goal, cancel, feedback)

    server.behaviour = work
    call = GoalCall(clients[0], Home.Goal())
    assert started.wait(5.0)
    server.end_goals()
    assert ended(call).result.outcome == "CANCELED"
    assert ended(GoalCall(clients[0], Home.Goal())).result.reason == "shutting_down"
