"""Cancel primitives at random moments in the lock-step lab and check every ending.

    python benchmarks/cancels.py --cancels 500 --seed 0

Each goal must end exactly once: CANCELED with the arm measured to stand still, or COMPLETED when the cancel came after
the end. After a CANCELED nothing may move: neither the reference nor the arm. The next goal must not be stillborn.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np

from vlatools.core import CancelToken, Outcome, Pose
from vlatools.robot.config import ArmConfig
from vlatools.robot.controller import ArmController
from vlatools.robot.ports import (
    FollowWaypoints,
    Grasp,
    Home,
    MoveJoints,
    MovePose,
    MoveTo,
    Primitive,
    Release,
    Retreat,
    RotatePitch,
    RotateWrist,
    SetGripper,
)
from vlatools.sim.lockstep import LockstepLab

_MOVED_M = 0.002  # the arm may creep by this much while it settles
_AFTER_S = 0.3


def make(kind: int, rng: np.random.Generator) -> Primitive:
    """A primitive of each kind in turn, with a random aim."""
    point = rng.uniform([0.35, -0.2, 0.25], [0.6, 0.2, 0.4])
    match kind % 11:
        case 0:
            return MoveTo(point)
        case 1:
            return MovePose(Pose.pointing_down(point, rng.uniform(-1, 1)))
        case 2:
            return MoveJoints(np.array(ArmConfig().home_q) + rng.uniform(-0.2, 0.2, 7))
        case 3:
            return FollowWaypoints((Pose.pointing_down(point), Pose.pointing_down(point + np.array([0.0, 0.1, 0.05]))))
        case 4:
            return RotateWrist(rng.uniform(-1.2, 1.2), relative=True)
        case 5:
            return RotatePitch(rng.uniform(-0.4, 0.4))
        case 6:
            return Retreat(0.1)
        case 7:
            return Home()
        case 8:
            return SetGripper(rng.uniform(0.0, 0.08))
        case 9:
            return Grasp()
        case _:
            return Release()


def run(cancels: int, seed: int) -> tuple[Counter[str], list[str], list[float]]:
    """How the goals ended, what was wrong, and the times from cancel to result, s."""
    rng = np.random.default_rng(seed)
    lab, config = LockstepLab("simple", seed=seed), ArmConfig()
    sent: list[tuple[float, np.ndarray]] = []
    command = lab.servo.command

    def recorded(q: np.ndarray, dq: np.ndarray) -> None:
        sent.append((lab.clock.now(), np.array(q)))
        command(q, dq)

    lab.servo.command = recorded  # type: ignore[method-assign]
    arm = ArmController(lab.servo, lab.gripper, config, lab.clock, background=lambda work: work())
    lab.clock.every(config.period_s, arm.tick)
    lab.clock.sleep(0.3)
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    delays: list[float] = []
    for number in range(cancels):
        primitive, token = make(number, rng), CancelToken()
        after = float(rng.uniform(0.001, 1.5))
        asked: list[float] = []

        def cancel(token: CancelToken = token, asked: list[float] = asked) -> None:
            asked.append(lab.clock.now())
            token.cancel()

        lab.clock.at(after, cancel)
        result = arm.run(primitive, cancel=token)
        name = f"{number}: {type(primitive).__name__} canceled after {after:.3f} s"
        ends[result.outcome.value] += 1
        if result.outcome is Outcome.CANCELED:
            ended, where = lab.clock.now(), arm.state().ee
            delays.append(ended - asked[0])
            if not arm.state().standstill:
                wrong.append(f"{name}: CANCELED, but not standing still")
            lab.clock.sleep(_AFTER_S)
            moved = [q for when, q in sent if when > ended]
            if len(moved) > 1 and np.abs(np.diff(moved, axis=0)).max() > 0:
                wrong.append(f"{name}: the reference moved after CANCELED")
            if arm.state().ee.distance_to(where) > _MOVED_M:
                wrong.append(f"{name}: the arm moved {1000 * arm.state().ee.distance_to(where):.1f} mm after CANCELED")
        elif result.outcome is not Outcome.COMPLETED and result.reason not in ("empty_grasp", "tolerance"):
            wrong.append(f"{name}: {result.outcome} {result.reason}: {result.message}")
        lab.clock.sleep(max(0.0, after - result.duration_s) + 0.02)  # a late cancel belongs to the goal before
        sent.clear()
        if number % 11 == 10 and not arm.run(Home()).reached:
            wrong.append(f"{name}: the goal after it did not succeed")
    lab.close()
    return ends, wrong, delays


def main() -> int:
    """Print the table; exit code 1 when an ending was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cancels", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begin = time.perf_counter()
    ends, wrong, delays = run(args.cancels, args.seed)
    print(f"{args.cancels} goals, {time.perf_counter() - begin:.0f} s: " + ", ".join(f"{n} {e}" for e, n in ends.items()))
    if delays:
        p50, p95, worst = np.percentile(delays, [50, 95, 100])
        print(f"cancel to result, simulated: p50 {p50:.2f} s, p95 {p95:.2f} s, worst {worst:.2f} s")
    for line in wrong:
        print("WRONG", line)
    print(f"{len(wrong)} wrong endings")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
