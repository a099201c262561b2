"""``vlatools demo``: one whole trial on the simulated robot, judged by its final physical state."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from rich.console import Console

from vlatools.commands.live import LiveView
from vlatools.commands.report import announce
from vlatools.commands.simulated import SimulatedGraph, simulated_graph
from vlatools.commands.task import TaskEnd, perform
from vlatools.commands.truth import TruthJudge
from vlatools.commands.up import say
from vlatools.config import share_root
from vlatools.signals import stop_on
from vlatools.trials.tasks import TaskConfig, load_task


def run_demo(console: Console, task_name: str, seed: int, policy: str, record: bool, trials: Path) -> int:
    """Start everything, run the task, judge, end everything. Returns the exit code."""
    stop = stop_on(signal.SIGINT, signal.SIGTERM)
    task = load_task(share_root() / "config" / "tasks", task_name)
    say(console, f"{task.name}, seed {seed}: {task.instruction}")
    with simulated_graph(console, record=record, policy=policy, task=task.scene, seed=seed, trials=str(trials.resolve())) as lab:
        if not lab.wait_ready(stop):
            return 130 if stop.is_set() else 2
        end = _trial(lab, task, seed, record, stop)
    announce(console, end)
    if stop.is_set():
        return 130
    return 0 if end.success and not end.recording else 1


def _trial(lab: SimulatedGraph, task: TaskConfig, seed: int, record: bool, stop: threading.Event) -> TaskEnd:
    view = LiveView(lab.console, lab.client, task.instruction, task.budget.time_limit_s)
    with TruthJudge(lab.control, task.success) as judge, view:
        return perform(
            lab.client,
            task.instruction,
            task=task.name,
            seed=seed,
            record=record,
            stop=stop,
            on_tick=view.update,
            judge=judge.verdict,
        )
