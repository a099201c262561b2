"""The life of a node's process: parameters, SIGINT and SIGTERM, faults; each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import DescribeParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import Empty, String
from vlatools_interfaces.action import Home

from vlatools.nodes.calls import ActionClient, GoalCall, call_service

CHILD = Path(__file__).with_name("lifecycle_node.py")


class Bench:
    """Clients of the node under test, and the process that runs it."""

    def __init__(self) -> None:
        self.node = Node("lifecycle_bench")
        self.work = ActionClient(self.node, Home, "/lifecycle/work")
        self.breaker = self.node.create_publisher(Empty, "/lifecycle/break", 1)
        self.heard: list[str] = []
        self.node.create_subscription(String, "/lifecycle/params", lambda m: self.heard.append(m.data), 1)
        self.child: subprocess.Popen[str] | None = None

    def start(self, *parameters: str) -> subprocess.Popen[str]:
        """Run the node and wait until it answers."""
        self.heard.clear()
        self.child = launch(*parameters)
        assert self.work.wait_for_server(timeout_sec=20.0)
        begin = time.monotonic()
        while not self.heard and time.monotonic() - begin < 10.0:
            time.sleep(0.05)
        return self.child

    def end(self) -> None:
        """End what is left, and wait until its server is gone (a killed one stays known for 20 s)."""
        if self.child is not None:
            self.child.terminate()
            self.child.wait(10.0)
        begin = time.monotonic()
        while self.work.server_is_ready() and time.monotonic() - begin < 30.0:
            time.sleep(0.05)


def launch(*parameters: str) -> subprocess.Popen[str]:
    options = [item for parameter in parameters for item in ("-p", parameter)]
    line = [sys.executable, str(CHILD), "--ros-args", *options]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def shared(module_spinner: Any) -> Iterator[Bench]:
    made = Bench()
    module_spinner.executor.add_node(made.node)
    yield made
    module_spinner.executor.remove_node(made.node)
    made.node.destroy_node()


@pytest.fixture
def bench(shared: Bench) -> Iterator[Bench]:
    yield shared
    shared.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_goals_with_a_result_and_leaves_no_traceback(bench: Bench, number: signal.Signals) -> None:
    child = bench.start()
    call = GoalCall(bench.work, Home.Goal())
    begin = time.monotonic()
    while not call.acknowledged and time.monotonic() - begin < 5.0:
        time.sleep(0.01)
    child.send_signal(number)
    assert call.wait(5.0), "the goal got no result"
    assert (call.result.outcome, call.status) == ("CANCELED", GoalStatus.STATUS_ABORTED)  # nobody asked for the cancel over ROS
    out, err = child.communicate(timeout=10.0)
    assert child.returncode == 0
    assert "closed" in out
    assert "Traceback" not in err


def test_a_broken_callback_ends_the_node_but_its_goals_get_a_result(bench: Bench) -> None:
    child = bench.start()
    call = GoalCall(bench.work, Home.Goal())
    begin = time.monotonic()
    while not call.acknowledged and time.monotonic() - begin < 5.0:
        time.sleep(0.01)
    bench.breaker.publish(Empty())
    assert call.wait(5.0), "the goal got no result"
    out, err = child.communicate(timeout=10.0)
    assert child.returncode == 1
    assert "closed" in out
    assert "broken on purpose" in err


def test_parameters_have_types_and_descriptions_and_cannot_be_changed(bench: Bench) -> None:
    bench.start('serial:="0123"', "fast:=true", "count:=4", "rate:=2.0", 'topics:=["/a", "/b"]')
    assert bench.heard[0] == "LifecycleParams(serial='0123', fast=True, count=4, rate=2.0, topics=('/a', '/b'))"
    describe = bench.node.create_client(DescribeParameters, "/lifecycle/describe_parameters")
    names = ["serial", "fast", "count", "rate", "topics"]
    found = call_service(describe, DescribeParameters.Request(names=names), 5.0).descriptors
    types = ("STRING", "BOOL", "INTEGER", "DOUBLE", "STRING_ARRAY")
    assert [d.type for d in found] == [getattr(ParameterType, f"PARAMETER_{kind}") for kind in types]
    assert all(d.description and d.read_only for d in found)
    change = bench.node.create_client(SetParameters, "/lifecycle/set_parameters")
    wish = Parameter("count", value=5).to_parameter_msg()
    (answer,) = call_service(change, SetParameters.Request(parameters=[wish]), 5.0).results
    assert not answer.successful


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        ("count:=11", "lifecycle: count is 11, it must be 1 to 10"),
        ("serial:=123", "lifecycle: parameter serial must be of type str"),
        ("rate:=fast", "lifecycle: parameter rate must be of type float"),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(parameter: str, says: str) -> None:
    child = launch(parameter)
    _, err = child.communicate(timeout=20.0)
    assert child.returncode == 2
    lines = [line for line in err.splitlines() if "RTPS_TRANSPORT" not in line]  # what a killed process left in shared memory
    assert len(lines) == 1
    assert lines[0].startswith(says)
