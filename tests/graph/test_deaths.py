"""kill -9 of each process: it comes back, the others go on, and the graph works again."""

from __future__ import annotations

import time
from typing import Any

import pytest
from rclpy.action import ActionClient
from vlatools_interfaces.action import Home, Locate

from vlatools.nodes.calls import GoalCall
from vlatools.nodes.table import TABLE

ALL = [spec.name for spec in TABLE]
BACK_S = 60.0


def works(lab: Any) -> None:
    """The arm goes home and perception sees the table, at the latest after BACK_S. A dead server is still known for a while."""
    node, begin = lab.client.node, time.monotonic()
    for kind, name, goal in ((Home, "/primitives/home", Home.Goal()), (Locate, "/perception/locate", Locate.Goal())):
        client = ActionClient(node, kind, name)
        try:
            while True:
                call = GoalCall(client, goal)
                if call.wait(8.0) and call.result is not None and call.result.outcome == "COMPLETED":
                    break
                call.cancel()
                said = call.result.message if call.result is not None else "no answer"
                assert time.monotonic() - begin < BACK_S, f"{name} does not work again: {said}"
                time.sleep(0.3)
        finally:
            client.destroy()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_killed_process_comes_back_alone(lab: Any, name: str) -> None:
    lab.wait_ready()
    before = lab.pids()
    lab.graph.kill(name)
    begin = time.monotonic()
    while lab.pids()[name] == before[name]:
        assert time.monotonic() - begin < 10.0, f"{name} was not started again"
        time.sleep(0.05)
    lab.wait_ready(BACK_S)
    works(lab)
    after = lab.pids()
    assert {k: v for k, v in after.items() if k != name} == {k: v for k, v in before.items() if k != name}
    assert any(line.startswith(f"{name} ended (killed by signal 9)") for line in lab.said)
