"""Throw random and adversarial chunks at the arm and check that nothing outside the limits reaches the robot.

    python benchmarks/chunk_limits.py --chunks 10000 --seed 0

Checked for every reference that is sent: joint positions, velocities (also the FR3's position-dependent ones),
accelerations and jerks by finite differences, the workspace box, the table under tool and links, self-collision.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass

import numpy as np

from vlatools.core import ActionChunk, ActionSpace, ChunkRefused, ManualClock, Pose
from vlatools.core.pose import quat_multiply
from vlatools.robot import fr3
from vlatools.robot.collision import BodyModel
from vlatools.robot.config import ArmConfig
from vlatools.robot.controller import ArmController
from vlatools.robot.model import Fr3Model
from vlatools.robot.ports import GripperState, GripperStatus, RobotState


class RecordingServo:
    """Goes exactly where it is told and keeps every reference."""

    def __init__(self, clock: ManualClock, q: np.ndarray) -> None:
        self._clock, self._model = clock, Fr3Model()
        self.q, self.dq = np.array(q), np.zeros(7)
        self.sent: list[np.ndarray] = [np.array(q)]
        self.velocities: list[np.ndarray] = [np.zeros(7)]

    def read(self) -> RobotState:
        pose = Pose.from_matrix(self._model.matrix(self.q))
        return RobotState(self._clock.now(), self.q, self.dq, np.zeros(7), pose, np.zeros(6))

    def command(self, q: np.ndarray, dq: np.ndarray) -> None:
        self.q, self.dq = np.array(q), np.array(dq)
        self.sent.append(self.q)
        self.velocities.append(self.dq)

    def robot_time(self) -> float:
        return self._clock.now()

    def start(self) -> None: ...

    def halt(self) -> None: ...

    def recover(self) -> None: ...

    def reconnect(self) -> None: ...

    def close(self) -> None: ...


class NoGripper:
    """Fingers that are always open."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.widths: list[float] = []

    def status(self) -> GripperStatus:
        return GripperStatus(GripperState(self._clock.now(), 0.08), False, len(self.widths))

    def move(self, width: float, speed: float) -> int:
        self.widths.append(width)
        return len(self.widths)

    def grasp(self, force: float, speed: float) -> int:
        self.widths.append(0.0)
        return len(self.widths)

    def stop(self) -> None: ...

    def close(self) -> None: ...


KINDS = (
    "sane", "fast", "zigzag", "out_of_box", "into_table", "to_base", "spin", "roll_low", "jump", "not_finite", "wrong_shape",
    "bad_quaternion", "stale", "future", "replay", "joints_sane", "joints_fast", "joints_edge", "joints_fold", "joints_jump",
)  # fmt: skip


def make_chunk(kind: str, rng: np.random.Generator, arm: ArmController, invocation: str, index: int) -> ActionChunk:
    """One chunk of ``kind`` from where the arm is; raises ChunkRefused where the chunk cannot even be built."""
    state = arm.report()
    assert state is not None
    now, count = arm.clock.now(), int(rng.integers(1, 30))
    dt = float(rng.choice([0.005, 0.02, 0.05, 0.1, 0.3]))
    rows = np.zeros((count, 8))
    rows[:, 7] = rng.choice([0.0, 0.04, 0.08, -1.0, 5.0])
    share = np.arange(1, count + 1)[:, None] / count
    if kind.startswith("joints"):
        rows[:, :7] = state.q + _joint_motion(kind, rng, share, state.q)
        return ActionChunk(invocation, index, ActionSpace.JOINT_POSITION, now, dt, rows)
    delta = rng.normal(size=3) * 0.05
    wobble = np.zeros((count, 3))
    turn = np.zeros(3)
    match kind:
        case "fast":
            delta *= 6
        case "zigzag":
            wobble = 0.05 * np.where(np.arange(count) % 2, 1, -1)[:, None] * rng.normal(size=3)
        case "out_of_box":
            delta = rng.normal(size=3) * 1.5
        case "into_table":
            delta = np.array([0, 0, -state.ee.position[2] - rng.uniform(0, 0.5)])
        case "to_base":
            delta = np.array([0.1, 0.0, rng.uniform(0, 0.3)]) - state.ee.position
        case "spin":
            turn = rng.normal(size=3) * 2.5
        case "roll_low":
            delta[2], turn = -state.ee.position[2], np.array([rng.uniform(-1.5, 1.5), rng.uniform(-1.5, 1.5), 0.0])
        case "jump":
            wobble = rng.normal(size=(count, 3))
    rows[:, :3] = state.ee.position + share * delta + wobble
    for i in range(count):
        half = turn * share[i] / 2
        angle = float(np.linalg.norm(half)) + 1e-12
        rows[i, 3:7] = quat_multiply(np.append(half * np.sin(angle) / angle, np.cos(angle)), state.ee.quat_xyzw)
    stamp = now
    match kind:
        case "not_finite":
            rows[rng.integers(count), rng.integers(8)] = rng.choice([np.nan, np.inf, -np.inf])
        case "wrong_shape":
            rows = rows[:, : rng.integers(1, 8)]
        case "bad_quaternion":
            rows[rng.integers(count), 3:7] *= rng.choice([0.0, 0.5, 2.0])
        case "stale":
            stamp = now - rng.uniform(0.5, 100)
        case "future":
            stamp = now + rng.uniform(0.05, 100)
        case "replay":
            index = int(rng.integers(0, index + 1))
    return ActionChunk(invocation, index, ActionSpace.EE_POSE, stamp, dt, rows)


def _joint_motion(kind: str, rng: np.random.Generator, share: np.ndarray, q: np.ndarray) -> np.ndarray:
    match kind:
        case "joints_fast":
            return share * rng.normal(size=7) * 2.0
        case "joints_edge":
            return share * (np.where(rng.random(7) < 0.5, fr3.Q_MIN, fr3.Q_MAX) * rng.uniform(1, 2) - q)
        case "joints_fold":  # upper arm down, elbow shut: towards the base
            return share * (np.array([0.0, 1.7, 0.0, -3.0, 0.0, 0.6, 0.0]) - q)
        case "joints_jump":
            return rng.normal(size=(len(share), 7)) * 2.0
        case _:
            return share * rng.normal(size=7) * 0.15


@dataclass
class Worst:
    """Largest share of each limit that a sent reference used; above 1 is a violation."""

    config: ArmConfig

    def of(self, q: np.ndarray, v: np.ndarray) -> dict[str, float]:
        config, dt = self.config, self.config.period_s
        model, body = Fr3Model(), BodyModel()
        links = model.links(q)
        centers = body.centers(links)
        tcp = model.tcp_of_links(links)[:, :3, 3]
        speed, acceleration, jerk = (np.diff(q, order, axis=0) / dt**order for order in (1, 2, 3))
        low, high = fr3.velocity_limits(q)
        margin = config.limits.joint_margin
        middle, reach = (fr3.Q_MAX + fr3.Q_MIN) / 2, (fr3.Q_MAX - fr3.Q_MIN) / 2 - margin
        box_low, box_high = np.array(config.limits.workspace_min), np.array(config.limits.workspace_max)
        table = config.limits.table_height + config.limits.table_clearance
        return {
            "joint position": float(np.abs((q - middle) / reach).max()),
            "joint velocity": float(np.abs(speed / config.velocity_limits).max()),
            "sent velocity": float(np.abs(v / config.velocity_limits).max()),
            "FR3 velocity at q": float(1 + np.maximum(v - high, low - v).max()),
            "joint acceleration": float(np.abs(acceleration).max() / config.speed.joint_acceleration),
            "joint jerk": float(np.abs(jerk).max() / config.speed.joint_jerk),
            "workspace": float(np.abs((tcp - (box_high + box_low) / 2) / ((box_high - box_low) / 2)).max()),
            "table": float(1 + table - min(part.min() for part in body.lowest(links, centers))),
            "self-collision": float(1 + config.limits.self_collision_clearance - body.self_gap(centers).min()),
        }


def run(chunks: int, seed: int) -> tuple[dict[str, float], Counter[str], float]:
    """Worst shares of the limits, what became of the chunks, and the distance that the TCP went, m."""
    rng = np.random.default_rng(seed)
    clock, config = ManualClock(10.0), ArmConfig()
    servo = RecordingServo(clock, config.home)
    arm = ArmController(servo, NoGripper(clock), config, clock, background=lambda work: work())
    arm.tick()
    count: Counter[str] = Counter()
    invocation, index = 0, 0
    for _ in range(chunks):
        kind = str(rng.choice(KINDS))
        if rng.random() < 0.1:
            invocation, index = invocation + 1, 0
        try:
            arm.send_chunk(make_chunk(kind, rng, arm, f"inv{invocation}", index))
            count["accepted"] += 1
            index += 1
        except ChunkRefused as refusal:
            count[f"refused: {refusal.reason}"] += 1
            invocation, index = (invocation + 1, 0) if refusal.reason == "ended" else (invocation, index + 1)
        if rng.random() < 0.02:
            arm.hold()
        for _ in range(int(rng.integers(0, 12))):
            clock.advance(config.period_s)
            arm.tick()
    q, v = np.array(servo.sent), np.array(servo.velocities)
    tcp = Fr3Model().tcp_of_links(Fr3Model().links(q))[:, :3, 3]
    count["periods"] = len(q)
    return Worst(config).of(q, v), count, float(np.linalg.norm(np.diff(tcp, axis=0), axis=1).sum())


def main() -> int:
    """Print the table; exit code 1 when a limit was exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begin = time.perf_counter()
    worst, count, distance = run(args.chunks, args.seed)
    print(f"{args.chunks} chunks, {count.pop('periods')} control periods, TCP path {distance:.0f} m, ", end="")
    print(f"{time.perf_counter() - begin:.0f} s")
    for reason, number in count.most_common():
        print(f"  {reason:28s} {number}")
    print("largest share of each limit in what was sent (above 1.000 is a violation):")
    for name, share in worst.items():
        print(f"  {name:28s} {share:.6f}{'   VIOLATION' if share > 1 + 1e-6 else ''}")
    return int(any(share > 1 + 1e-6 for share in worst.values()))


if __name__ == "__main__":
    sys.exit(main())
