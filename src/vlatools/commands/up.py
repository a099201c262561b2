"""``vlatools up``: the node table as processes, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import datetime
from pathlib import Path

from rich.console import Console

from vlatools.config import find_config
from vlatools.nodes.graph_client import GraphClient
from vlatools.nodes.supervisor import Graph, use_environment
from vlatools.nodes.table import Arguments
from vlatools.signals import stop_on

LOGS = Path("log")
READY_S = 60.0


def log_folder() -> Path:
    """A new folder for the logs of one run."""
    return LOGS / f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"


def say(console: Console, line: str, style: str = "") -> None:
    """One line, left as it is: paths and messages can be copied."""
    console.print(line, style=style or None, markup=False, highlight=False, soft_wrap=True)


def ros_domain() -> int:
    """The ROS domain of this shell."""
    return int(os.environ.get("ROS_DOMAIN_ID") or 0)


def run_up(console: Console, arguments: Arguments) -> int:
    """Start the graph, say when it is ready, keep it alive. Returns the exit code. Raises ConfigError before anything starts."""
    find_config(arguments.calibration_file)
    stop = stop_on(signal.SIGINT, signal.SIGTERM)
    folder = log_folder()
    graph = Graph(arguments, folder, ros_domain(), say=lambda line: say(console, line, "yellow"))
    use_environment(graph.env)
    say(console, f"starting {', '.join(graph.processes)}; logs in {folder}")
    graph.start()
    try:
        with GraphClient(arguments.record) as client:
            if not wait_ready(console, client, graph, stop):
                return 0 if stop.is_set() else 2
        say(console, f"ready (ROS_DOMAIN_ID={graph.ros_domain}). In another terminal: vlatools run 'put the red cube into the left bowl'")
        while not stop.wait(0.5):
            if graph.failed():
                return 2
        return 0
    finally:
        console.print("ending the nodes ...")
        graph.stop()


def wait_ready(console: Console, client: GraphClient, graph: Graph, stop: threading.Event, limit_s: float = READY_S) -> bool:
    """Wait until a task can be run; says what it waits for, and why it gave up."""
    begin_s = told_s = time.monotonic()
    while not stop.is_set():
        lacking = client.missing()
        if not lacking:
            return True
        if graph.failed():
            return False  # the supervisor has said why
        now = time.monotonic()
        if now - begin_s > limit_s:
            why = f"not ready after {limit_s:.0f} s; still waiting for {', '.join(lacking)}. Logs: {graph.log_folder}"
            say(console, why, "red")
            return False
        if now - told_s > 5.0:
            told_s = now
            say(console, f"waiting for {', '.join(lacking)}", "dim")
        stop.wait(0.05)
    return False
