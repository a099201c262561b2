"""``vlatools demo``: one whole trial on the simulated robot, judged by its final physical state."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from rich.console import Console

from vlatools.commands.live import LiveView
from vlatools.commands.report import announce
from vlatools.commands.task import TaskEnd, perform
from vlatools.commands.truth import TruthJudge
from vlatools.commands.up import log_folder, say, wait_ready
from vlatools.config import share_root
from vlatools.nodes.graph_client import GraphClient
from vlatools.nodes.supervisor import Graph, free_simulation, use_environment
from vlatools.nodes.table import Arguments
from vlatools.sim.control import SimControl, default_address
from vlatools.trials.tasks import TaskConfig, load_task


def run_demo(console: Console, task_name: str, seed: int, policy: str, record: bool, trials: Path) -> int:
    """Start everything, run the task, judge, end everything. Returns the exit code."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    task = load_task(share_root() / "config" / "tasks", task_name)
    domain, host = free_simulation()
    arguments = Arguments(
        robot_ip=host, sim=True, policy=policy, record=record, task=task.scene, seed=seed, domain=f"d{domain}", trials=str(trials.resolve())
    )
    graph = Graph(arguments, log_folder(), domain, say=lambda line: say(console, line, "yellow"))
    use_environment(graph.env)
    say(console, f"{task.name}, seed {seed}: {task.instruction}")
    say(console, f"starting {', '.join(graph.processes)}; logs in {graph.log_folder}", "dim")
    graph.start()
    try:
        with GraphClient(record) as client:
            if not wait_ready(console, client, graph, stop):
                return 130 if stop.is_set() else 2
            end = _trial(console, client, task, seed, record, stop, arguments.domain)
    finally:
        graph.stop()
    announce(console, end)
    if stop.is_set():
        return 130
    return 0 if end.success and not end.recording else 1


def _trial(console: Console, client: GraphClient, task: TaskConfig, seed: int, record: bool, stop: threading.Event, domain: str) -> TaskEnd:
    control = SimControl(default_address(domain))
    with TruthJudge(control, task.success) as judge, LiveView(console, client, task.instruction, task.budget.time_limit_s) as view:
        return perform(
            client,
            task.instruction,
            task=task.name,
            seed=seed,
            record=record,
            stop=stop,
            on_tick=view.update,
            judge=judge.verdict,
        )
