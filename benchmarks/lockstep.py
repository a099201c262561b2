"""Speed of the lock-step simulation on one core: simulated seconds per CPU second.

    python benchmarks/lockstep.py [--seconds 20]

Three rows: physics alone, with the arm controller at 50 Hz moving and grasping (a state-only trial), and with pictures at 5 Hz beside it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

from vlatools.robot.config import ArmConfig  # noqa: E402
from vlatools.robot.controller import ArmController  # noqa: E402
from vlatools.robot.ports import Grasp, MoveTo, Release  # noqa: E402
from vlatools.sim.lockstep import LockstepLab  # noqa: E402


def rate(lab: LockstepLab, work: Callable[[], None], seconds: float) -> float:
    """Simulated seconds per CPU second of ``work``, repeated until ``seconds`` have been simulated."""
    begin, cpu = lab.clock.now(), time.process_time()
    while lab.clock.now() - begin < seconds:
        work()
    return (lab.clock.now() - begin) / (time.process_time() - cpu)


def busy_arm(lab: LockstepLab) -> Callable[[], None]:
    """Picks the red cube up and puts it down."""
    arm = ArmController(lab.servo, lab.gripper, ArmConfig(), lab.clock, background=lambda work: work())
    lab.clock.every(arm.config.period_s, arm.tick)
    lab.clock.sleep(0.2)

    def work() -> None:
        cube = lab.truth().objects["red cube"].pose
        for height in (0.12, 0.02):
            arm.run(MoveTo(np.array([*cube.position[:2], height]), yaw=cube.yaw))
        arm.run(Grasp())
        for height in (0.12, 0.022):
            arm.run(MoveTo(np.array([*cube.position[:2], height]), yaw=cube.yaw))
        arm.run(Release())

    return work


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="simulated seconds per row")
    seconds = parser.parse_args().seconds
    print(f"{'scene':12} {'physics':>9} {'with arm':>9} {'and 5 Hz pictures':>18}   (simulated seconds per CPU second)")
    for scene in ("conditioned", "simple", "long"):
        lab = LockstepLab(scene, 0)
        physics = rate(lab, lambda lab=lab: lab.clock.sleep(1.0), seconds)
        work = busy_arm(lab)
        arm = rate(lab, work, seconds)
        lab.clock.every(0.2, lambda lab=lab: lab.camera.latest(1.0))
        pictures = rate(lab, work, seconds)
        print(f"{scene:12} {physics:8.1f}x {arm:8.1f}x {pictures:17.1f}x")
        lab.close()


if __name__ == "__main__":
    main()
