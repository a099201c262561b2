"""``vlatools run``: give the running graph an instruction."""

from __future__ import annotations

import signal
import time

from rich.console import Console

from vlatools.commands.live import LiveView
from vlatools.commands.report import announce
from vlatools.commands.task import perform
from vlatools.commands.up import ros_domain
from vlatools.nodes.graph_client import GraphClient
from vlatools.nodes.supervisor import use_environment
from vlatools.nodes.table import Arguments, environment
from vlatools.signals import stop_on

_FIND_S = 15.0


def run_instruction(console: Console, instruction: str, task: str, time_limit_s: float, record: bool) -> int:
    """Run it and show it. Returns the exit code: 0 success, 1 failure, 2 no graph, 130 canceled."""
    stop = stop_on(signal.SIGINT)
    use_environment(environment(Arguments()))
    with GraphClient(record) as client:
        deadline = time.monotonic() + _FIND_S
        while (lacking := client.missing()) and time.monotonic() < deadline and not stop.is_set():
            stop.wait(0.1)
        if lacking:
            console.print(
                f"no ready graph in ROS domain {ros_domain()}: {', '.join(lacking)}. "
                "Start it: vlatools up, or ros2 launch vlatools franka.launch.py",
                style="red",
                markup=False,
            )
            return 2
        with LiveView(console, client, instruction, time_limit_s) as view:
            end = perform(client, instruction, task=task, time_limit_s=time_limit_s, record=record, stop=stop, on_tick=view.update)
    announce(console, end)
    return 130 if stop.is_set() else 0 if end.success else 1
