"""Whole tasks in lock-step simulation, judged by the true physical state.

    python benchmarks/trials_lockstep.py --task simple conditioned long --seeds 200
    python benchmarks/trials_lockstep.py --task simple --seeds 10 --disturb teleport_grasp

One row of JSON per trial goes to ``--out``; trials that are in it already are not run again. A table ends the run.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vlatools.agent.config import AgentConfig
from vlatools.agent.events import AgentEvent, AgentNotice
from vlatools.agent.library import PlanLibrary
from vlatools.agent.runner import TaskRunner
from vlatools.commands.truth import truth_sample
from vlatools.config import config_root, find_config, load
from vlatools.core import CancelToken, Feedback, Invocation, InvocationResult
from vlatools.sim.assembly import LockstepStack
from vlatools.sim.fate import DISTURBANCES, Fate
from vlatools.sim.lockstep import LockstepLab
from vlatools.trials.intervals import wilson
from vlatools.trials.judge import StageTracker
from vlatools.trials.summary import read_rows
from vlatools.trials.tasks import TaskConfig, load_task

JUDGE_S = 0.05
AFTER_S = 1.5  # the judge watches on after the task


def main() -> int:
    """Run the trials that are missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=["simple", "conditioned", "long"], help="names in config/tasks")
    parser.add_argument("--seeds", type=int, default=20, help="trials of each task")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--disturb", choices=DISTURBANCES, default="none", help="what goes wrong in each trial")
    parser.add_argument("--out", type=Path, default=Path("trials/lockstep.jsonl"), help="rows, appended")
    parser.add_argument("--verbose", action="store_true", help="print the agent's events")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = read_rows(options.out)
    for name in options.task:
        task = load_task(config_root() / "tasks", name)
        for seed in range(options.start, options.start + options.seeds):
            if (name, seed, options.disturb) in done:
                continue
            row = run_trial(task, seed, options.disturb, options.verbose)
            gc.collect()  # a lab is full of cycles, and most of its memory Python does not count
            done[(name, seed, options.disturb)] = row
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            _say(row)
    _table(done, options)
    return 0


def run_trial(task: TaskConfig, seed: int, disturb: str, verbose: bool) -> dict[str, Any]:
    """One trial: a fresh lab, the stack, the task, the judge. Times are simulated seconds unless they say wall."""
    wall_s = time.perf_counter()
    stack = LockstepStack(task.scene, seed)
    try:
        lab, clock = stack.lab, stack.clock
        tracker = StageTracker(task.success, truth_sample(lab.truth()))
        clock.every(JUDGE_S, lambda: tracker.feed(truth_sample(lab.truth())))
        fate = Fate(disturb, lab, np.random.default_rng([seed, 17]))
        config = load(AgentConfig, find_config("planner.yaml"))
        events: list[str] = []

        def hear(notice: AgentNotice) -> None:
            if isinstance(notice, AgentEvent):
                events.append(f"{notice.stamp_s:7.2f} {notice.kind.value}: {notice.message}")
                if verbose:
                    print("   ", events[-1], flush=True)

        runner = TaskRunner(PlanLibrary(config, clock), Fated(fate, lab, stack.invoke), stack.observe, stack.arm, clock, config, hear)
        result = runner.run(task.instruction, task.budget)
        clock.sleep(AFTER_S)
        verdict = tracker.verdict(result.claimed)
    finally:
        stack.close()
    in_time = result.duration_s <= task.budget.time_limit_s
    return {
        "task": task.name,
        "seed": seed,
        "disturb": disturb,
        "disturbed": fate.done,
        "success": bool(verdict.value) and in_time,
        "verified": result.verified,
        "claimed": result.claimed,
        "outcome": str(result.outcome),
        "reason": result.reason,
        "message": result.message,
        "verdict": verdict.message,
        "duration": round(result.duration_s, 2),
        "invocations": len(result.records),
        "replans": result.replans,
        "wall": round(time.perf_counter() - wall_s, 2),
        "records": result.table(),
        "events": [] if verdict.value and not result.replans else events,
    }


class Fated:
    """The tools, with one thing that goes wrong in each trial. Implements the agent's Tools port."""

    def __init__(self, fate: Fate, lab: LockstepLab, invoke: Callable[..., InvocationResult]) -> None:
        self._fate = fate
        self._lab = lab
        self._invoke = invoke

    def invoke(
        self,
        invocation: Invocation,
        cancel: CancelToken,
        on_feedback: Callable[[Feedback], None] | None = None,
    ) -> InvocationResult:
        """Run the invocation; something may happen during it."""
        delay = self._fate.delay(invocation.family, invocation.object)
        if delay is not None:
            self._lab.clock.at(delay, lambda: self._fate.strike(invocation.object, invocation.target, invocation.instruction))
        return self._invoke(invocation, cancel, on_feedback)


def _say(row: dict[str, Any]) -> None:
    mark = "ok  " if row["success"] else "FAIL"
    why = "" if row["success"] else f"  {row['outcome']} {row['reason']}: {row['message']} | judge: {row['verdict']}"
    fate = f"  [{row['disturbed'] or 'not disturbed'}]" if row["disturb"] != "none" else ""
    print(
        f"{mark} {row['task']} {row['seed']:3d}  {row['duration']:6.1f} s  {row['invocations']:2d} calls  "
        f"{row['replans']} replans  wall {row['wall']:.1f} s{fate}{why}",
        flush=True,
    )


def _table(rows: dict[tuple[str, int, str], dict[str, Any]], options: argparse.Namespace) -> None:
    print(f"\n{'task':<12} {'disturbance':<15} {'success':>9} {'rate':>7}  {'95 % Wilson':<16} {'verified':>9} "
          f"{'time s: median, max':>20} {'replans':>8} {'x real time':>12}")  # fmt: skip
    for name in options.task:
        group = [
            row
            for (task, seed, disturb), row in rows.items()
            if task == name
            and disturb == options.disturb
            and options.start <= seed < options.start + options.seeds
            and (disturb == "none" or row["disturbed"])
        ]
        if not group:
            continue
        good, count = sum(row["success"] for row in group), len(group)
        low, high = wilson(good, count)
        times = sorted(row["duration"] for row in group)
        speed = sum(times) / max(1e-9, sum(row["wall"] for row in group))
        print(
            f"{name:<12} {options.disturb:<15} {good:>4}/{count:<4} {100 * good / count:6.1f}%  "
            f"{100 * low:5.1f} to {100 * high:5.1f}% {sum(row['verified'] for row in group):>6}/{count:<4}"
            f"{times[count // 2]:>12.1f}, {times[-1]:5.1f} {sum(row['replans'] for row in group):>8} {speed:>12.1f}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
