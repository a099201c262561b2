"""Rates and latencies of the running graph on this machine, beside a bare rclpy action round trip in the same run.

    python benchmarks/graph.py [--rounds 20] [--out graph.json]

Starts the served simulation and all nodes; nothing else should run. Times are seen from a client in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import Point
from rclpy.action import ActionServer
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rich.console import Console
from rich.table import Table
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64
from vlatools_interfaces.action import Home, InvokeTool, MoveTo
from vlatools_interfaces.msg import ActionChunk

from vlatools.commands.simulated import simulated_graph
from vlatools.nodes.calls import ActionClient, GoalCall
from vlatools.nodes.graph_client import GraphClient
from vlatools.nodes.ros_camera import RosCamera

BARE, BARE_CHUNK, BARE_ARRIVAL = "/bench/bare", "/bench/action_chunk", "/bench/arrival"
MOVING = 0.02  # rad/s, of any joint
FAR, NEAR = Point(x=0.45, y=0.15, z=0.40), Point(x=0.45, y=-0.15, z=0.40)


@dataclass
class Row:
    """One line of the table: a figure, or the distribution of ``values``."""

    name: str
    unit: str
    values: list[float]

    def cells(self) -> list[str]:
        """As text."""
        if not self.values:
            return [self.name, "0", "-", "-", "-", self.unit]
        p50, p99, worst = np.percentile(self.values, 50), np.percentile(self.values, 99), max(self.values)
        single = len(self.values) == 1
        return [self.name, str(len(self.values)), f"{p50:.1f}", "" if single else f"{p99:.1f}", "" if single else f"{worst:.1f}", self.unit]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="goals of each kind")
    parser.add_argument("--seconds", type=float, default=10.0, help="time over which frames are counted")
    parser.add_argument("--out", type=Path, default=None, help="write the figures as JSON, too")
    parser.add_argument("--bare-server", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare_server:
        return bare_server()
    console = Console()
    rows = measure(console, options.rounds, options.seconds)
    table = Table(title=f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("figure", "n", "p50", "p99", "max", "unit"):
        table.add_column(column, justify="left" if column in ("figure", "unit") else "right")
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)
    if options.out is not None:
        options.out.write_text(json.dumps([row.__dict__ for row in rows], indent=1))
    return 0


def measure(console: Console, rounds: int, seconds: float) -> list[Row]:
    """Start the graph and measure all figures."""
    with simulated_graph(console) as lab, helper([str(Path(__file__)), "--bare-server"]):
        if not lab.wait_ready():
            raise SystemExit(2)
        node = lab.client.node
        rows = [Row("start of the graph until a task can be run", "s", [time.monotonic() - lab.started_s])]
        rows += [Row("simulated over real time", "", [lab.control.info()["real_time_factor"]])]
        rows += frames(seconds)
        rows += motion(lab.client, rounds)
        rows += frame_to_command(node, rounds)
        rows += [round_trips("bare rclpy action, goal to result", ActionClient(node, Home, BARE), Home.Goal(), 5 * rounds)]
        flip = InvokeTool.Goal(family="flip", instruction="flip")
        rows += [round_trips("GoalRunner, goal to refusal", ActionClient(node, InvokeTool, "/tools/flip"), flip, 5 * rounds)]
        return rows


# -- camera -----------------------------------------------------------------------------------------------------------


def frames(seconds: float) -> list[Row]:
    """Published and received frames, counted by a process of its own."""
    counter = Path(__file__).with_name("image_counter.py")
    done = subprocess.run([sys.executable, str(counter), str(seconds)], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    begin = max(seen[name][0] for name in ("announced", "color", "depth"))
    end = min(seen[name][-1] for name in ("announced", "color", "depth"))
    count = {name: len({s for s in seen[name] if begin <= s <= end}) for name in ("announced", "color", "depth")}
    rows = [Row("camera, frames published", "Hz", [(count["announced"] - 1) / (end - begin)])]
    for name in ("color", "depth"):
        rows.append(Row(f"camera, {name} images received in another process", "Hz", [(count[name] - 1) / (end - begin)]))
        rows.append(Row(f"camera, {name} images lost of {count['announced']}", "", [float(count["announced"] - count[name])]))
    return [*rows, Row("exposure to image received", "ms", [1000 * late for late in seen["late"]])]


def frame_to_command(node: Node, rounds: int) -> list[Row]:
    """From exposure to a chunk in another process, by a policy that takes no time: one that only sees the frame."""
    camera = RosCamera(node)
    arrivals: queue.Queue[float] = queue.Queue()
    chunks = node.create_publisher(ActionChunk, BARE_CHUNK, 10)
    node.create_subscription(Float64, BARE_ARRIVAL, lambda message: arrivals.put(message.data), 10)
    last_s, ages = camera.wait_after(0.0, 10.0).stamp_s, []
    for _ in range(rounds):
        frame = camera.wait_after(last_s, 5.0)
        last_s = frame.stamp_s
        chunks.publish(ActionChunk(dt=0.04, horizon=10, actions=[0.0] * 80))
        with contextlib.suppress(queue.Empty):
            ages.append(1000 * (arrivals.get(timeout=1.0) - frame.stamp_s))
    return [Row("frame to command in another process, without the policy's time", "ms", ages)]


# -- motion -----------------------------------------------------------------------------------------------------------


class Joints:
    """When the arm began and ended to move, by /joint_states."""

    def __init__(self, node: Node) -> None:
        self._lock = threading.Lock()
        self._moving: list[float] = []
        node.create_subscription(JointState, "/joint_states", self._heard, qos_profile_sensor_data)

    def _heard(self, message: JointState) -> None:
        if max(abs(v) for v in message.velocity) > MOVING:
            with self._lock:
                self._moving.append(time.monotonic())

    def first_after(self, begin_s: float) -> float:
        """First time at which it was seen moving."""
        with self._lock:
            return next((t for t in self._moving if t >= begin_s), float("nan"))

    def last_after(self, begin_s: float) -> float:
        """Last time at which it was seen moving; ``begin_s`` if never."""
        with self._lock:
            return max((t for t in self._moving if t >= begin_s), default=begin_s)


def motion(client: GraphClient, rounds: int) -> list[Row]:
    """Goal to first command, cancel to standstill, of a primitive and of a tool."""
    node, joints = client.node, Joints(client.node)
    chunk_s: list[float] = []
    client.on_chunk = lambda _message: chunk_s.append(time.monotonic())
    home = ActionClient(node, Home, "/primitives/home")
    move = ActionClient(node, MoveTo, "/primitives/move_to")
    reach = ActionClient(node, InvokeTool, "/tools/reach")
    figures: dict[str, list[float]] = {name: [] for name in ("moves", "still", "result", "chunk", "tool_still", "tool_result")}
    for number in range(rounds):
        wait(GoalCall(home, Home.Goal()), 20.0)
        started, canceled, ended = canceled_goal(move, MoveTo.Goal(position=FAR if number % 2 else NEAR), 0.5)
        time.sleep(0.3)
        figures["moves"].append(1000 * (joints.first_after(started) - started))
        figures["still"].append(1000 * (joints.last_after(canceled) - canceled))
        figures["result"].append(1000 * (ended - canceled))
        wait(GoalCall(home, Home.Goal()), 20.0)
        chunk_s.clear()
        goal = InvokeTool.Goal(family="reach", instruction="reach the red cube", object="red cube")
        started, canceled, ended = canceled_goal(reach, goal, 1.0)
        time.sleep(0.3)
        if chunk_s:
            figures["chunk"].append(1000 * (chunk_s[0] - started))
        figures["tool_still"].append(1000 * (joints.last_after(canceled) - canceled))
        figures["tool_result"].append(1000 * (ended - canceled))
    client.on_chunk = None
    return [
        Row("primitive, goal to first motion", "ms", figures["moves"]),
        Row("tool, goal to first command (with a look at the table)", "ms", figures["chunk"]),
        Row("primitive, cancel to standstill", "ms", figures["still"]),
        Row("primitive, cancel to result CANCELED", "ms", figures["result"]),
        Row("tool, cancel to standstill", "ms", figures["tool_still"]),
        Row("tool, cancel to result CANCELED", "ms", figures["tool_result"]),
    ]


def canceled_goal(client: ActionClient, goal: Any, after_s: float) -> tuple[float, float, float]:
    """Send, cancel after so long, wait for the end; the three times."""
    call = GoalCall(client, goal)
    time.sleep(after_s)
    canceled = time.monotonic()
    call.cancel()
    return call.sent_s, canceled, wait(call, 10.0)


def wait(call: GoalCall, limit_s: float) -> float:
    """Wait for the end of a goal; when it came."""
    if not call.wait(limit_s):
        raise SystemExit(f"a goal did not end within {limit_s:.0f} s: see the logs of the nodes")
    return time.monotonic()


# -- beside -----------------------------------------------------------------------------------------------------------


def round_trips(name: str, client: ActionClient, goal: Any, count: int) -> Row:
    """Goal sent to result received."""
    client.wait_for_server(timeout_sec=20.0)
    times = []
    for _ in range(count):
        call = GoalCall(client, goal)
        times.append(1000 * (wait(call, 10.0) - call.sent_s))
    return Row(name, "ms", times[count // 10 :])


def bare_server() -> int:
    """An action server that succeeds at once, as in the tutorials; tells when chunks arrive, on the host's monotonic clock."""
    rclpy.init()
    node = rclpy.create_node("bare_server")
    arrival = node.create_publisher(Float64, BARE_ARRIVAL, 10)
    node.create_subscription(ActionChunk, BARE_CHUNK, lambda _chunk: arrival.publish(Float64(data=time.monotonic())), 10)

    def execute(handle: Any) -> Any:
        handle.succeed()
        return Home.Result()

    ActionServer(node, Home, BARE, execute)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    with contextlib.suppress(KeyboardInterrupt):
        executor.spin()
    return 0


@contextlib.contextmanager
def helper(line: list[str]) -> Iterator[None]:
    """A Python process for as long as the block runs."""
    process = subprocess.Popen([sys.executable, *line], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
