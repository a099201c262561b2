"""Whole tasks in lock-step simulation, judged by the true physical state.

    python benchmarks/trials_lockstep.py --task simple conditioned long --seeds 200
    python benchmarks/trials_lockstep.py --task simple --seeds 10 --disturb teleport_grasp

One row of JSON per trial goes to ``--out``; trials that are in it already are not run again. A table ends the run.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vlatools.agent.config import AgentConfig
from vlatools.agent.events import AgentEvent, AgentNotice
from vlatools.agent.library import PlanLibrary
from vlatools.agent.runner import TaskRunner
from vlatools.config import config_root, find_config, load
from vlatools.core import CancelToken, Family, Feedback, Invocation, InvocationResult, Pose
from vlatools.sim.assembly import LockstepStack
from vlatools.sim.lockstep import LockstepLab
from vlatools.trials.intervals import wilson
from vlatools.trials.judge import BodyTruth, StageTracker, TruthSample
from vlatools.trials.tasks import TaskConfig, load_task

DISTURBANCES = ("none", "teleport_grasp", "drop_move", "shift_bowl")
JUDGE_S = 0.05
AFTER_S = 1.5  # the judge watches on after the task
TABLE = ((0.36, 0.66), (-0.20, 0.20))  # where the hand of fate may put things, m


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
    done = _read(options.out)
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
        tracker = StageTracker(task.success, _sample(lab))
        clock.every(JUDGE_S, lambda: tracker.feed(_sample(lab)))
        fate = Fate(disturb, lab, stack.invoke, np.random.default_rng([seed, 17]))
        config = load(AgentConfig, find_config("planner.yaml"))
        events: list[str] = []

        def hear(notice: AgentNotice) -> None:
            if isinstance(notice, AgentEvent):
                events.append(f"{notice.stamp_s:7.2f} {notice.kind.value}: {notice.message}")
                if verbose:
                    print("   ", events[-1], flush=True)

        runner = TaskRunner(PlanLibrary(config, clock), fate, stack.observe, stack.arm, clock, config, hear)
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


class Fate:
    """The tools, with one thing that goes wrong in each trial. Implements the agent's Tools port."""

    def __init__(
        self,
        kind: str,
        lab: LockstepLab,
        invoke: Callable[..., InvocationResult],
        rng: np.random.Generator,
    ) -> None:
        self._kind = kind
        self._lab = lab
        self._invoke = invoke
        self._rng = rng
        self._left = int(rng.integers(0, 2))  # how many chances to let pass
        self._bowl_moment = Family.MOVE if rng.random() < 0.5 else Family.REACH  # under way to it, or long before
        self.done = ""

    def invoke(
        self,
        invocation: Invocation,
        cancel: CancelToken,
        on_feedback: Callable[[Feedback], None] | None = None,
    ) -> InvocationResult:
        """Run the invocation; something may happen during it."""
        cube = invocation.object.endswith("cube")
        chance = {
            "none": False,
            "teleport_grasp": invocation.family is Family.GRASP and cube,
            "drop_move": invocation.family is Family.MOVE and cube,
            "shift_bowl": invocation.family is self._bowl_moment and cube,
        }[self._kind]
        if chance and not self.done:
            if self._left == 0:
                delay = float(
                    self._rng.uniform(0.02, 0.25) if self._kind == "teleport_grasp" else self._rng.uniform(0.3, 1.2)
                )
                self._lab.clock.at(delay, lambda: self._strike(invocation))
            self._left -= 1
        return self._invoke(invocation, cancel, on_feedback)

    def _strike(self, invocation: Invocation) -> None:
        if self._kind == "drop_move":
            push = self._rng.uniform(-1, 1, 2)
            self._lab.knock(invocation.object, np.array([*(0.04 * push / np.linalg.norm(push)), 0.0]))
            self.done = f"{invocation.object} knocked out during '{invocation.instruction}'"
            return
        bowls = [name for name in self._lab.truth().objects if name.endswith("bowl")]
        if self._kind == "teleport_grasp":
            name = invocation.object
        elif invocation.target in bowls:
            name = invocation.target
        else:
            name = str(self._rng.choice(bowls)) if bowls else ""
        place = self._free_place(name) if name else None
        if place is not None:
            body = self._lab.truth().objects[name]
            self._lab.teleport(name, Pose(np.array([*place, body.size[2] / 2 + 0.001]), body.pose.quat_xyzw))
            self.done = f"{name} put to ({place[0]:.2f}, {place[1]:.2f}) during '{invocation.instruction}'"

    def _free_place(self, name: str) -> tuple[float, float] | None:
        """A place 7 to 12 cm away (a bowl 3 to 5) that touches nothing; a cube must not land in a finger."""
        objects = self._lab.truth().objects
        here = objects[name].pose.position
        for _ in range(200):
            angle = self._rng.uniform(-np.pi, np.pi)
            distance = self._rng.uniform(*((0.03, 0.05) if name.endswith("bowl") else (0.07, 0.12)))
            x, y = here[0] + distance * np.cos(angle), here[1] + distance * np.sin(angle)
            inside = TABLE[0][0] <= x <= TABLE[0][1] and TABLE[1][0] <= y <= TABLE[1][1]
            clear = all(
                np.hypot(x - other.pose.position[0], y - other.pose.position[1])
                > (other.size[0] + objects[name].size[0]) / 2 + 0.03
                for key, other in objects.items()
                if key != name and not other.held
            )
            if inside and clear:
                return float(x), float(y)
        return None


def _sample(lab: LockstepLab) -> TruthSample:
    truth = lab.truth()
    bodies = {
        name: BodyTruth(item.pose, np.asarray(item.size), float(np.linalg.norm(item.velocity)), str(item.kind.value))
        for name, item in truth.objects.items()
    }
    held = frozenset(name for name, item in truth.objects.items() if item.held)
    return TruthSample(truth.time_s, bodies, held)


def _read(path: Path) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Rows of earlier runs; a last line that a kill has cut off is left out."""
    rows: dict[tuple[str, int, str], dict[str, Any]] = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                print(f"{path}: a line that is no JSON is left out", file=sys.stderr)
                continue
            rows[(row["task"], row["seed"], row["disturb"])] = row
    return rows


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
