"""Whole tasks through the ROS graph on the served simulation, judged by the true physical state.

    python benchmarks/trials.py --task simple conditioned long --seeds 20
    python benchmarks/trials.py --task simple --seeds 10 --disturb teleport_grasp

One graph serves all trials; the scene is reset between them. One row of JSON per trial goes to ``--out``; trials that are in it already
are not run again, so a killed run resumes. A table with Wilson intervals ends the run.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from vlatools.commands.simulated import SimulatedGraph, simulated_graph
from vlatools.commands.task import TaskEnd, perform
from vlatools.commands.truth import TruthJudge
from vlatools.config import config_root
from vlatools.core import Family
from vlatools.nodes.graph_client import GraphClient
from vlatools.sim.fate import DISTURBANCES, Fate
from vlatools.trials.summary import TrialRow, read_rows, summary_table
from vlatools.trials.tasks import TaskConfig, load_task

Key = tuple[str, int, str]  # task, seed, disturbance


class Disturber:
    """Strikes during an invocation, told by the tools' progress."""

    def __init__(self, client: GraphClient, fate: Fate) -> None:
        self._client = client
        self._fate = fate
        self._seen = ""

    def tick(self) -> None:
        """Look for the start of an invocation."""
        progress = self._client.seen.progress
        if progress is None or progress.invocation_id == self._seen:
            return
        self._seen = progress.invocation_id
        plan = self._client.seen.plan
        if plan is None or not 0 <= plan.current < len(plan.steps):
            return
        step = plan.steps[plan.current]
        delay = self._fate.delay(Family(progress.family), step.object)
        if delay is not None:
            threading.Timer(delay, self._fate.strike, (step.object, step.target, progress.instruction)).start()


def main() -> int:
    """Run the trials that are missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=["simple", "conditioned", "long"], help="names in config/tasks")
    parser.add_argument("--seeds", type=int, default=20, help="trials of each task")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--disturb", choices=DISTURBANCES, default="none", help="what goes wrong in each trial")
    parser.add_argument("--out", type=Path, default=Path("trials/graph.jsonl"), help="rows, appended")
    parser.add_argument("--record", action="store_true", help="record a bag of each trial")
    options = parser.parse_args()
    console = Console()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = read_rows(options.out)
    wanted = [
        (task, seed, options.disturb)
        for task in options.task
        for seed in range(options.start, options.start + options.seeds)
    ]
    missing = [key for key in wanted if key not in rows]
    if missing:
        run(console, missing, rows, options)
    done = [TrialRow(r["task"], r["seed"], r["success"], r["claimed"], r["duration"], r["why"], r["replans"], tuple(r["records"]))
            for key, r in rows.items() if key in wanted and (options.disturb == "none" or r["disturbed"])]  # fmt: skip
    console.print(summary_table(done))
    return 0


def run(console: Console, missing: list[Key], rows: dict[Key, dict[str, Any]], options: argparse.Namespace) -> None:
    """Start the graph and run what is missing."""
    first = load_task(config_root() / "tasks", missing[0][0])
    with simulated_graph(console, record=options.record, task=first.scene, seed=missing[0][1]) as lab:
        if not lab.wait_ready():
            raise SystemExit(2)
        for key in missing:
            row = trial(lab, key, options.record)
            rows[key] = row
            with options.out.open("a") as file:
                file.write(json.dumps(row, default=str) + "\n")
            say(console, row)


def trial(lab: SimulatedGraph, key: Key, record: bool) -> dict[str, Any]:
    """One trial on the running graph."""
    name, seed, disturb = key
    task = load_task(config_root() / "tasks", name)
    client, control = lab.client, lab.control
    control.reset(seed, task.scene)
    time.sleep(1.0)  # the camera has to see the new scene
    if not lab.wait_ready():
        raise SystemExit(2)
    before = control.info()
    fate = Fate(disturb, control, np.random.default_rng([seed, 17]))
    disturber = Disturber(client, fate)
    wall_s = time.monotonic()
    with TruthJudge(control, task.success) as judge:
        end = perform(client, task.instruction, task=task.name, seed=seed, record=record, on_tick=disturber.tick, judge=judge.verdict)
    return row_of(task, seed, disturb, fate.done, end, time.monotonic() - wall_s, before, control.info())


def row_of(
    task: TaskConfig, seed: int, disturb: str, disturbed: str, end: TaskEnd, wall_s: float, before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Any]:
    """A trial as one JSON row."""
    in_time = end.duration_s <= task.budget.time_limit_s
    success = end.success and in_time
    verdict = end.verdict.message if end.verdict is not None else ""
    return {
        "task": task.name,
        "seed": seed,
        "disturb": disturb,
        "disturbed": disturbed,
        "success": success,
        "claimed": end.claimed,
        "verified": end.verified,
        "outcome": end.outcome.value,
        "duration": round(end.duration_s, 2),
        "wall": round(wall_s, 2),
        "why": "" if success else f"{end.outcome.value} {end.reason}: {end.message} | judge: {verdict}",
        "invocations": end.invocations,
        "replans": end.replans,
        "records": list(end.table),
        "sim_before": before,
        "sim_after": after,
    }


def say(console: Console, row: dict[str, Any]) -> None:
    """One line a trial."""
    mark = "ok  " if row["success"] else "FAIL"
    fate = f"  [{row['disturbed'] or 'not disturbed'}]" if row["disturb"] != "none" else ""
    counts = f"{row['duration']:6.1f} s  {row['invocations']:2d} calls  {row['replans']} replans"
    line = f"{mark} {row['task']} {row['seed']:3d}  {counts}{fate}  {row['why']}"
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
