"""kill -9 of each process: it comes back, the others go on, and the graph works again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
from vlatools_interfaces.action import Home, InvokeTool, Locate, RunTask

from vlatools.core import StaleData
from vlatools.nodes.calls import ActionClient, GoalCall
from vlatools.nodes.table import TABLE

ALL = [spec.name for spec in TABLE]
BACK_S = 60.0


def works(lab: Any) -> None:
    """Every node does something, each at the latest BACK_S after it is asked first. A dead server is still known for a while, so it is
    asked again."""
    node = lab.client.node
    for kind, name, goal, outcome in (
        (Home, "/primitives/home", Home.Goal(), "COMPLETED"),
        (Locate, "/perception/locate", Locate.Goal(), "COMPLETED"),
        (InvokeTool, "/tools/grasp", InvokeTool.Goal(family="flip"), "REJECTED"),
        (RunTask, "/run_task", RunTask.Goal(instruction="sing a song"), "REJECTED"),
    ):
        client = ActionClient(node, kind, name)
        try:
            again(lambda c=client, g=goal, o=outcome: acted(c, g, o), name)  # type: ignore[misc]
        finally:
            client.destroy()
    again(lambda: not lab.client.stop_recording("", "", "").success, "/recorder/stop")


def acted(client: ActionClient, goal: Any, outcome: str) -> bool:
    call = GoalCall(client, goal)
    if not call.wait(8.0):
        call.cancel()
    return call.result is not None and call.result.outcome == outcome


def again(attempt: Callable[[], bool], name: str) -> None:
    until_s = time.monotonic() + BACK_S
    while True:
        with contextlib.suppress(StaleData):
            if attempt():
                return
        assert time.monotonic() < until_s, f"{name} does not work again"
        time.sleep(0.3)


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
