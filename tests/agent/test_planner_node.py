"""The planner node in this process: goals, preemption, topics. Tools, arm and perception are without physics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from vlatools_interfaces import msg as messages
from vlatools_interfaces.action import RunTask

from tests.agent.fake_world import SIMPLE, FakeWorld
from vlatools.core import CancelToken, Invocation, InvocationResult, Outcome
from vlatools.nodes import planner as module
from vlatools.nodes.calls import ActionClient


class SlowWorld(FakeWorld):
    """Tools that take real time and look at their cancel token, as over ROS."""

    pause_s = 0.02

    def invoke(self, invocation: Invocation, cancel: CancelToken, on_feedback: Any = None) -> InvocationResult:
        end = time.monotonic() + self.pause_s
        while time.monotonic() < end:
            if cancel.canceled:
                outcome = Outcome.PREEMPTED if cancel.reason == CancelToken.PREEMPT else Outcome.CANCELED
                self.calls.append(invocation)
                return self.result(invocation, outcome, cancel.reason)
            time.sleep(0.005)
        return super().invoke(invocation, cancel, on_feedback)


class Graph:
    """The node, a client and what was heard."""

    def __init__(self, world: SlowWorld, node: module.PlannerNode, peer: Node) -> None:
        self.world = world
        self.node = node
        self.client = ActionClient(peer, RunTask, "/run_task")
        self.events: list[Any] = []
        self.feedback: list[Any] = []
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.plans: list[Any] = []
        self.ledger: list[Any] = []
        peer.create_subscription(messages.Plan, "/planner/plan", self.plans.append, latched)
        peer.create_subscription(messages.AgentEvent, "/planner/events", self.events.append, 50)
        peer.create_subscription(messages.LedgerEntry, "/planner/ledger", self.ledger.append, 50)
        assert self.client.wait_for_server(timeout_sec=10.0)

    def send(self, **goal: Any) -> Any:
        return wait(
            self.client.send_goal_async(
                RunTask.Goal(**goal), feedback_callback=lambda message: self.feedback.append(message.feedback)
            )
        )

    def run(self, **goal: Any) -> Any:
        return wait(self.send(**goal).get_result_async())


def wait(future: Any, timeout_s: float = 20.0) -> Any:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    assert done.wait(timeout_s), "no answer in time"
    return future.result()


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    world = SlowWorld({item.name: item for item in SIMPLE}, FakeWorld.of(SIMPLE).clock)
    monkeypatch.setattr(module, "RosArm", lambda node: world)
    monkeypatch.setattr(module, "RosTools", lambda node: world)
    monkeypatch.setattr(module, "RosObserve", lambda node: world.observe)
    monkeypatch.setattr(module, "lab_clock", lambda: world.clock)
    rclpy.init(domain_id=77)
    stop = threading.Event()
    executor = SingleThreadedExecutor()

    def spin() -> None:
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin)
    try:
        node, peer = module.PlannerNode(), Node("peer")
        executor.add_node(node)
        executor.add_node(peer)
        thread.start()
        yield Graph(world, node, peer)
        node.end_goals()
        deadline = time.monotonic() + 5.0
        while node.busy and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        stop.set()
        if thread.is_alive():
            thread.join()
        rclpy.shutdown()


def test_a_task_by_name_runs_and_is_told(graph: Graph) -> None:
    answer = graph.run(task="simple")
    result = answer.result
    assert (result.outcome, result.claimed, result.verified) == ("COMPLETED", True, True), result.message
    assert (result.invocations, result.replans, result.model_calls) == (8, 0, 0)
    assert [row["family"] for row in json.loads(result.summary_json)[:4]] == ["reach", "grasp", "move", "release"]
    time.sleep(0.2)
    assert {event.kind for event in graph.events} >= {"observed", "planned", "invoked", "returned", "finished"}
    assert len({event.task_id for event in graph.events}) == 1
    assert len(graph.plans[-1].steps) == 8
    assert graph.plans[-1].current == 8
    assert all(step.status == messages.PlanStep.DONE for step in graph.plans[-1].steps)
    assert [entry.model for entry in graph.ledger] == ["plan_library"]
    assert graph.feedback
    assert graph.feedback[-1].total == 8


def test_what_cannot_be_served_is_answered_with_the_reason(graph: Graph) -> None:
    result = graph.run(task="smple").result
    assert (result.outcome, result.reason) == ("REJECTED", "bad_task")
    assert "simple" in result.message
    result = graph.run().result
    assert (result.outcome, result.reason) == ("REJECTED", "bad_argument")
    result = graph.run(instruction="dance").result
    assert (result.outcome, result.reason) == ("REJECTED", "not_understood")
    assert not graph.world.calls


def test_a_newer_task_preempts_and_then_runs(graph: Graph) -> None:
    graph.world.pause_s = 0.5
    first = graph.send(task="simple")
    time.sleep(0.7)
    graph.world.pause_s = 0.01
    second = graph.send(instruction="put the yellow cube into the right bowl")
    result = wait(first.get_result_async()).result
    assert result.outcome == "PREEMPTED", result.message
    calls = len(graph.world.calls)
    result = wait(second.get_result_async()).result
    assert result.outcome in ("COMPLETED", "REJECTED"), result.message
    assert all("yellow" in call.instruction for call in graph.world.calls[calls:])


def test_a_cancel_ends_the_plan(graph: Graph) -> None:
    graph.world.pause_s = 0.3
    handle = graph.send(task="simple")
    time.sleep(0.8)
    wait(handle.cancel_goal_async())
    answer = wait(handle.get_result_async())
    assert answer.result.outcome == "CANCELED"
    calls = len(graph.world.calls)
    time.sleep(0.7)
    assert len(graph.world.calls) == calls
