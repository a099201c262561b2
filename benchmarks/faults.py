"""Faults during a trial on the live graph: the arm stops, the outcome names the cause, the graph comes back, the bag is readable.

    python benchmarks/faults.py                         # all of them
    python benchmarks/faults.py --fault kill_arm reflex

For each fault: reset the scene, start recording and the simple task, wait until a cube is being carried, let the fault happen, and measure
how long the arm still moves (by the simulation's truth), how the task ends, whether the graph is ready again with no other process
restarted, and what of the bag can be read. The disk-full case needs root: it mounts a small tmpfs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from vlatools.commands.simulated import SimulatedGraph, simulated_graph
from vlatools.config import config_root
from vlatools.core import Family, StaleData
from vlatools.sim.control import SimControlError
from vlatools.trials.bag_info import bag_info
from vlatools.trials.tasks import load_task

NODES = ("arm", "camera", "perception", "tools", "planner", "recorder", "monitor", "sim")
HARMLESS = ("kill_sim", "disk_full", "kill_monitor", "kill_recorder", "kill_perception")  # the arm may go on, or is gone
STILL_RAD_S = 0.02
STILL_S = 0.3
CARRY_S = 60.0
END_S = 75.0
READY_S = 60.0
DISK_MB = 1200  # room for all bags; the recorder wants 256 MB free


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and how it is made good."""

    name: str
    happen: Callable[[Bench], None]
    mend: Callable[[Bench], None] = lambda _bench: None
    restarts: str = ""  # the process that may be another one afterwards


class Bench:
    """The running graph and the folder of its trials."""

    def __init__(self, lab: SimulatedGraph, trials: Path) -> None:
        self.graph, self.client, self.control, self.trials = lab.graph, lab.client, lab.control, trials

    def pids(self) -> dict[str, int]:
        """Process of each node."""
        return {name: p.popen.pid for name, p in self.graph.processes.items() if p.popen is not None}

    def fill_disk(self) -> None:
        """Leave no room below the trials' folder."""
        with contextlib.suppress(OSError), (self.trials / "ballast").open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()

    def free_disk(self) -> None:
        """Give the room back."""
        (self.trials / "ballast").unlink(missing_ok=True)


def kill(name: str) -> Fault:
    """kill -9 of one process."""
    return Fault(f"kill_{name}", lambda b: b.graph.kill(name), restarts=name)


FAULTS = [
    *(kill(name) for name in NODES),
    Fault("freeze_camera", lambda b: b.control.freeze_camera(True), lambda b: b.control.freeze_camera(False)),
    Fault("reflex", lambda b: b.control.reflex("cartesian_reflex"), lambda b: b.client.recover(allow_collision=True)),
    Fault("power_limit", lambda b: b.control.reflex("power_limit_violation")),
    Fault("user_stop", lambda b: b.control.user_stop(True), lambda b: b.control.user_stop(False)),
    Fault("lost_connection", lambda b: b.control.drop_connection(), lambda b: b.client.recover(allow_collision=True)),
    Fault("dead_connection", lambda b: b.control.pause_server(2.0)),
    Fault("gripper_hangs", lambda b: b.control.gripper_hang(True), lambda b: b.control.gripper_hang(False)),
    Fault("disk_full", Bench.fill_disk, Bench.free_disk),
]


def main() -> int:
    """Run the faults and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", nargs="+", choices=[f.name for f in FAULTS], default=[f.name for f in FAULTS])
    parser.add_argument("--out", type=Path, default=Path("trials/faults.jsonl"), help="rows, appended")
    options = parser.parse_args()
    console = Console()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder)) as trials, running(console, trials) as bench:
        for fault in FAULTS:
            if fault.name in options.fault:
                row = run(bench, fault)
                rows.append(row)
                with options.out.open("a") as file:
                    file.write(json.dumps(row, default=str) + "\n")
                line = f"{fault.name}: {row['outcome']} {row['reason']}: {row['message']}"
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(table(rows))
    return 0 if all(good(row) for row in rows) else 1


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A small tmpfs where this may be mounted, else the folder itself."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


@contextlib.contextmanager
def running(console: Console, trials: Path) -> Iterator[Bench]:
    """A graph on a served simulation."""
    with simulated_graph(console, trials=str(trials)) as lab:
        if not lab.wait_ready():
            raise SystemExit(2)
        yield Bench(lab, trials)


def run(bench: Bench, fault: Fault) -> dict[str, Any]:
    """One fault."""
    task = load_task(config_root() / "tasks", "simple")
    bench.control.reset(seed=len(fault.name), scene=task.scene)
    time.sleep(1.0)
    ready(bench)
    started = bench.client.start_recording(task.instruction, "simple", 0)
    if not started.success:
        raise SystemExit(f"the recorder did not start: {started.message}")
    bench.client.seen.progress = None
    call = bench.client.run_task(task.instruction, "simple")
    begin = time.monotonic()
    # A gripper that hangs is met at its next command; anything else while a cube is carried.
    wanted = Family.REACH if fault.name == "gripper_hangs" else Family.MOVE
    while time.monotonic() - begin < CARRY_S and not call.done:
        seen = bench.client.seen.progress
        if seen is not None and seen.family == wanted.value and seen.smoothed > 0.15:
            break
        time.sleep(0.02)
    before = bench.pids()
    struck = time.monotonic()
    fault.happen(bench)
    still_s = float("nan") if fault.name in HARMLESS else standstill(bench)
    call.wait(END_S)
    ended_s = time.monotonic() - struck
    call.cancel()
    call.wait(10.0)
    recording = "recorder did not answer"
    with contextlib.suppress(StaleData):
        stopped = bench.client.stop_recording("COMPLETED", "", "{}")
        recording = "" if stopped.success else stopped.message
    with contextlib.suppress(StaleData, SimControlError):
        fault.mend(bench)
    back_s = ready(bench)
    changed = sorted(name for name, pid in bench.pids().items() if before.get(name) != pid and name != fault.restarts)
    try:
        messages = sum(topic.count for topic in bag_info(Path(started.folder) / "bag").topics)
    except Exception as error:
        messages = -1
        recording = f"{recording}; unreadable: {error}"
    result = call.result
    return {
        "fault": fault.name,
        "still_s": still_s,
        "outcome": result.outcome if result is not None else "no result",
        "reason": result.reason if result is not None else "planner lost",
        "message": result.message if result is not None else "",
        "ended_s": ended_s,
        "back_s": back_s,
        "restarted": changed,
        "messages": messages,
        "recording": recording,
    }


def standstill(bench: Bench, limit_s: float = 10.0) -> float:
    """Seconds until the arm has begun to stand still, by the simulation's truth; inf if it goes on."""
    begin = time.monotonic()
    last: tuple[float, np.ndarray] | None = None
    since: float | None = None
    while time.monotonic() - begin < limit_s:
        try:
            truth = bench.control.truth()
        except SimControlError:
            time.sleep(0.1)
            continue
        if last is not None and truth.time_s > last[0]:
            speed = float(np.max(np.abs(truth.q - last[1]))) / (truth.time_s - last[0])
            now = time.monotonic()
            since = (since or now) if speed < STILL_RAD_S else None
            if since is not None and now - since >= STILL_S:
                return since - begin
        last = (truth.time_s, truth.q)
        time.sleep(0.04)
    return float("inf")


def ready(bench: Bench) -> float:
    """Seconds until a task could be run again; inf if it does not come."""
    begin = time.monotonic()
    while bench.client.missing():
        if time.monotonic() - begin > READY_S:
            return float("inf")
        time.sleep(0.05)
    return time.monotonic() - begin


def good(row: dict[str, Any]) -> bool:
    """Whether the graph came back alone with a readable bag."""
    return row["back_s"] < READY_S and not row["restarted"] and row["messages"] > 0


def table(rows: list[dict[str, Any]]) -> Table:
    """All faults."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("fault", "arm still after", "task ended", "after", "ready again", "others restarted", "bag messages"):
        out.add_column(name, justify="right" if name in ("arm still after", "after", "ready again", "bag messages") else "left")
    for row in rows:
        still = "-" if np.isnan(row["still_s"]) else f"{row['still_s']:.2f} s"
        out.add_row(
            row["fault"],
            still,
            f"{row['outcome']} {row['reason']}",
            f"{row['ended_s']:.1f} s",
            f"{row['back_s']:.1f} s",
            ", ".join(row["restarted"]) or "none",
            str(row["messages"]),
        )
    return out


if __name__ == "__main__":
    raise SystemExit(main())
