"""One running graph on a served simulation for all whole-graph tests: real processes, real transport."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from vlatools.nodes.supervisor import Graph, free_simulation
from vlatools.nodes.table import Arguments

READY_S = 90.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these are graph tests, and slow ones."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.graph)
            item.add_marker(pytest.mark.timeout(300))


@dataclass
class Lab:
    """The running graph with a client, and the hands of a person in the simulated lab."""

    graph: Graph
    client: object
    control: object
    said: list[str]

    def wait_ready(self, limit_s: float = READY_S) -> float:
        """Wait until a task can be run; returns how long it took."""
        begin = time.monotonic()
        while lacking := self.client.missing():  # type: ignore[attr-defined]
            assert not self.graph.failed(), self.graph.failed()
            assert time.monotonic() - begin < limit_s, f"not ready after {limit_s:.0f} s: {lacking}; logs in {self.graph.log_folder}"
            time.sleep(0.05)
        return time.monotonic() - begin

    def pids(self) -> dict[str, int]:
        """Process of each node."""
        return {name: p.popen.pid for name, p in self.graph.processes.items() if p.popen is not None}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Starts everything once a module, so that nothing runs beside other tests; the environment of this process is left as it was."""
    from vlatools.nodes.graph_client import GraphClient
    from vlatools.sim.control import SimControl, default_address

    folder = tmp_path_factory.mktemp("graph")
    domain, host = free_simulation()
    arguments = Arguments(robot_ip=host, sim=True, domain=f"test-graph-{os.getpid()}", trials=str(folder / "trials"))
    said: list[str] = []
    graph = Graph(arguments, folder / "log", domain, say=said.append)
    before = dict(os.environ)
    os.environ.update(graph.env)
    graph.start()
    try:
        with GraphClient(domain=domain) as client:
            made = Lab(graph, client, SimControl(default_address(arguments.domain)), said)
            made.wait_ready()
            yield made
    finally:
        graph.stop()
        os.environ.clear()
        os.environ.update(before)
        assert threading.active_count() < 50
