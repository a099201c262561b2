"""The node table on a served simulation of its own: what demo and benchmarks start, use and end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from vlatools.commands.up import log_folder, say, wait_ready
from vlatools.nodes.graph_client import GraphClient
from vlatools.nodes.supervisor import Graph, free_simulation, use_environment
from vlatools.nodes.table import Arguments
from vlatools.sim.control import SimControl, default_address


@dataclass(frozen=True)
class SimulatedGraph:
    """The running graph with a client, and the hands of a person in the simulated lab.

    Attributes:
        started_s: monotonic time at which the processes were started.
    """

    console: Console
    graph: Graph
    client: GraphClient
    control: SimControl
    started_s: float

    def wait_ready(self, stop: threading.Event | None = None) -> bool:
        """Wait until a task can be run; False when it does not come, which has been said then, or ``stop`` was set."""
        return wait_ready(self.console, self.client, self.graph, stop or threading.Event())


@contextlib.contextmanager
def simulated_graph(console: Console, *, record: bool = True, **arguments: Any) -> Iterator[SimulatedGraph]:
    """Start everything at an address and in a ROS domain that nobody uses; end everything on leaving.

    Args:
        console: told what the supervisor does.
        record: start the recorder.
        arguments: further fields of :class:`vlatools.nodes.table.Arguments`.

    Raises:
        ConfigError: a wrong argument, or no free address.
    """
    domain, host = free_simulation()
    given = Arguments(robot_ip=host, sim=True, record=record, domain=f"d{domain}", **arguments)
    graph = Graph(given, log_folder(), domain, say=lambda line: say(console, line, "yellow"))
    use_environment(graph.env)
    say(console, f"starting {', '.join(graph.processes)}; logs in {graph.log_folder}", "dim")
    started_s = time.monotonic()
    graph.start()
    try:
        with GraphClient(record) as client:
            yield SimulatedGraph(console, graph, client, SimControl(default_address(given.domain)), started_s)
    finally:
        graph.stop()
