"""Each tool family in lock-step over sampled scenes, judged by the true state of the simulation.

    python benchmarks/tools.py --seeds 30
    python benchmarks/tools.py --seeds 30 --only long

Scripts of invocations are run without an agent, so that a failed one is counted and not mended: `simple` puts cubes into
bowls, `long` is the 24-step chain with stacks and carried bowls, `contact` pushes, pulls and turns a cube. Prints a table
by family with Wilson intervals and, for placements, how far the object is from where it should be. Exit code 1 when a
family of the chains is below 99 %.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from vlatools.core import Family, Invocation, InvocationResult, Outcome
from vlatools.sim.assembly import LockstepStack, StackConfig
from vlatools.trials.intervals import wilson

CHAIN = (Family.REACH, Family.GRASP, Family.MOVE, Family.RELEASE)
NEEDED = 0.99


@dataclass
class Tally:
    """Counts and errors of one family."""

    done: int = 0
    tried: int = 0
    seconds: list[float] = field(default_factory=list)
    errors_mm: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Bench:
    """Runs scripts and keeps the tallies."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = defaultdict(Tally)
        self.chains: dict[str, list[bool]] = defaultdict(list)
        self.clips = 0
        self.simulated_s = 0.0
        self.cpu_s = 0.0

    def run(self, script: str, seeds: int, config: StackConfig) -> None:
        """All seeds of one script."""
        with LockstepStack({"contact": "simple"}.get(script, script), 0, config) as stack:
            begin_cpu, begin = time.process_time(), stack.clock.now()
            for seed in range(seeds):
                stack.reset(seed)
                self.chains[script].append(all(SCRIPTS[script](self, stack, f"{script} {seed}")))
            self.cpu_s += time.process_time() - begin_cpu
            self.simulated_s += stack.clock.now() - begin

    def invoke(self, stack: LockstepStack, where: str, family: Family, name: str, **arguments: Any) -> bool:
        """One invocation; True when it completed and the truth agrees."""
        result = stack.invoke(Invocation(family, f"{family.value} the {name}", object=name, **arguments))
        stack.clock.sleep(0.4)
        wrong = _judge(stack, result) if result.outcome is Outcome.COMPLETED else f"{result.outcome}: {result.message}"
        tally = self.tallies[family.value]
        tally.tried += 1
        tally.done += not wrong
        tally.seconds.append(result.duration_s)
        self.clips += result.clips
        if wrong:
            tally.failures.append(f"{where}: {family.value} {name}: {wrong}")
        return not wrong

    def carry(self, stack: LockstepStack, where: str, name: str, **place: Any) -> Iterator[bool]:
        """Pick and place; also measures where the object came to rest."""
        wanted = _place(stack, place)
        for family in CHAIN:
            yield self.invoke(stack, where, family, name, **(place if family in CHAIN[2:] else {}))
        at = stack.lab.truth().objects[name].pose.position
        self.tallies["release"].errors_mm.append(1e3 * float(np.linalg.norm(at[:2] - wanted)))

    def report(self) -> bool:
        """Print the tables; True when the chains' families are good enough."""
        table = Table("family", "done", "rate", "95 % interval", "median s", "median mm", "worst mm")
        good = True
        for family in (f.value for f in Family if f.value in self.tallies):
            tally = self.tallies[family]
            low, high = wilson(tally.done, tally.tried)
            rate = tally.done / tally.tried
            good = good and (Family(family) not in CHAIN or rate >= NEEDED)
            errors = tally.errors_mm
            table.add_row(
                family,
                f"{tally.done}/{tally.tried}",
                f"{100 * rate:.1f} %",
                f"{100 * low:.1f} to {100 * high:.1f}",
                f"{np.median(tally.seconds):.2f}",
                f"{np.median(errors):.1f}" if errors else "",
                f"{max(errors):.1f}" if errors else "",
            )
        console = Console(width=110)
        console.print(table)
        for script, ends in self.chains.items():
            console.print(f"{script}: {sum(ends)} of {len(ends)} scripts without one failure")
        console.print(
            f"{self.clips} clips; {self.simulated_s:.0f} simulated s in {self.cpu_s:.0f} CPU s: "
            f"{self.simulated_s / max(self.cpu_s, 1e-9):.1f} times real time"
        )
        for tally in self.tallies.values():
            for failure in tally.failures:
                console.print(f"  {failure}", markup=False)
        return good


def _place(stack: LockstepStack, place: dict[str, Any]) -> np.ndarray:
    """Where the object should come to rest (2,)."""
    target = place.get("target")
    return stack.lab.truth().objects[target].pose.position[:2] if target else np.asarray(place["position"])[:2]


def _judge(stack: LockstepStack, result: InvocationResult) -> str:
    """Why the true state contradicts the completed invocation, "" if it does not."""
    truth = stack.lab.truth()
    name, family = result.invocation.object, result.invocation.family
    thing = truth.objects[name]
    match family:
        case Family.REACH:
            distance = float(np.linalg.norm(truth.ee.position[:2] - thing.pose.position[:2]))
            limit = float(thing.size[0]) / 2
            return "" if distance < limit else f"the tool is {1e3 * distance:.0f} mm from the object's middle"
        case Family.GRASP | Family.MOVE:
            return "" if thing.held and thing.pose.position[2] > thing.size[2] / 2 + 0.01 else "the object is not held up"
        case Family.RELEASE:
            if thing.held or np.linalg.norm(thing.velocity) > 0.02:
                return "the object is not at rest"
            upright = thing.pose.rotation[2, 2] > math.cos(0.1)
            return "" if upright else "the object lies askew"
    return ""


def simple(bench: Bench, stack: LockstepStack, where: str) -> Iterator[bool]:
    """Two cubes into two bowls."""
    yield from bench.carry(stack, where, "red cube", target="left bowl")
    yield from bench.carry(stack, where, "yellow cube", target="right bowl")


def long(bench: Bench, stack: LockstepStack, where: str) -> Iterator[bool]:
    """The 24-step chain: stacks, carried bowls, cubes into bowls."""
    first = {name: thing.pose.position[:2].copy() for name, thing in stack.lab.truth().objects.items()}

    def where_was(name: str) -> np.ndarray:
        return np.array([*first[name], 0.0])

    yield from bench.carry(stack, where, "blue cube", target="red cube")
    yield from bench.carry(stack, where, "left bowl", position=where_was("blue cube"))
    yield from bench.carry(stack, where, "blue cube", target="left bowl")
    yield from bench.carry(stack, where, "yellow cube", target="red cube")
    yield from bench.carry(stack, where, "right bowl", position=where_was("yellow cube"))
    yield from bench.carry(stack, where, "yellow cube", target="right bowl")


def conditioned(bench: Bench, stack: LockstepStack, where: str) -> Iterator[bool]:
    """Red on yellow, back to its place, yellow on red."""
    red = stack.lab.truth().objects["red cube"].pose.position[:2].copy()
    yield from bench.carry(stack, where, "red cube", target="yellow cube")
    yield from bench.carry(stack, where, "red cube", position=np.array([*red, 0.0]))
    yield from bench.carry(stack, where, "yellow cube", target="red cube")


def contact(bench: Bench, stack: LockstepStack, where: str) -> Iterator[bool]:
    """Push, pull and turn a cube; the true displacement decides."""

    def moved(name: str, goal: np.ndarray) -> float:
        return float(np.linalg.norm(stack.lab.truth().objects[name].pose.position[:2] - goal[:2]))

    rng = np.random.default_rng(stack.lab.world.instance.seed)
    away = rng.uniform(-1.2, 1.2)
    goal = np.zeros(3)
    goal[:2] = stack.lab.truth().objects["red cube"].pose.position[:2] + 0.06 * np.array([math.cos(away), math.sin(away)])
    for family, name, arguments in (
        (Family.PUSH, "red cube", {"position": goal}),
        (Family.PULL, "yellow cube", {"position": np.array([0.36, -0.08, 0.0])}),
        (Family.ROTATE, "yellow cube", {"angle": float(rng.uniform(-1.0, 1.0))}),
    ):
        yaw = stack.lab.truth().objects[name].pose.yaw
        good = bench.invoke(stack, where, family, name, **arguments)
        tally = bench.tallies[family.value]
        if family is Family.ROTATE:
            turned = math.remainder(stack.lab.truth().objects[name].pose.yaw - yaw - arguments["angle"], 2 * math.pi)
            wrong = f"turned {turned:+.2f} rad too far" if abs(turned) > 0.15 else ""
        else:
            error = moved(name, np.asarray(arguments["position"]))
            tally.errors_mm.append(1e3 * error)
            wrong = f"it is {1e3 * error:.0f} mm from its goal" if error > 0.03 else ""
        if good and wrong:
            tally.done -= 1
            tally.failures.append(f"{where}: {family.value} {name}: completed, but {wrong}")
        yield good and not wrong


SCRIPTS = {"simple": simple, "conditioned": conditioned, "long": long, "contact": contact}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=30, help="scenes a script (default 30)")
    parser.add_argument("--only", choices=sorted(SCRIPTS), help="one script only")
    arguments = parser.parse_args()
    bench = Bench()
    config = StackConfig.shipped()
    for script in [arguments.only] if arguments.only else SCRIPTS:
        bench.run(script, arguments.seeds, config)
    return 0 if bench.report() else 1


if __name__ == "__main__":
    sys.exit(main())
