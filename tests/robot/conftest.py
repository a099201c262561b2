"""An arm on doubles, ticked by a manual clock."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from doubles import FakeGripper, FakeServo, TickClock

from vlatools.core import ActionChunk, ActionSpace
from vlatools.robot.config import ArmConfig
from vlatools.robot.controller import ArmController


@dataclass
class Rig:
    clock: TickClock
    servo: FakeServo
    fingers: FakeGripper
    arm: ArmController

    def line(self, target, invocation="inv", index=0, rows=10, dt=0.1, opening=0.08, stamp=None) -> ActionChunk:
        """A straight chunk from the measured pose to ``target`` (3,)."""
        state = self.arm.report()
        values = np.zeros((rows, 8))
        share = np.arange(1, rows + 1)[:, None] / rows
        values[:, :3] = state.ee.position + share * (np.asarray(target) - state.ee.position)
        values[:, 3:7], values[:, 7] = state.ee.quat_xyzw, opening
        return ActionChunk(
            invocation, index, ActionSpace.EE_POSE, state.stamp_s if stamp is None else stamp, dt, values
        )


@pytest.fixture
def rig() -> Rig:
    clock = TickClock()
    servo, fingers, config = FakeServo(clock), FakeGripper(clock), ArmConfig()
    arm = ArmController(servo, fingers, config, clock, background=lambda work: work())
    clock.every(config.period_s, arm.tick)
    clock.sleep(0.3)
    return Rig(clock, servo, fingers, arm)
