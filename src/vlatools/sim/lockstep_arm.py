"""Servo and gripper ports of the lock-step simulation, directly on MuJoCo."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ArmFault
from vlatools.robot.config import RobotConfig
from vlatools.robot.ports import GripperState, GripperStatus, RobotState
from vlatools.sim.clock import SimClock
from vlatools.sim.forces import ForceSense, Thresholds
from vlatools.sim.world import World

Vector = NDArray[np.float64]

_STOP_S = 0.08  # the robot's own stop takes about this long
_GRIPPER_DEADLINE_S = 5.0


class LockstepServo:
    """Implements ``JointServo`` on MuJoCo: franky's joint impedance law, and the FR3's reflexes."""

    def __init__(self, world: World, clock: SimClock, config: RobotConfig) -> None:
        self._world = world
        self._clock = clock
        self._gains = (np.array(config.stiffness), np.array(config.damping))
        self._limits = Thresholds(
            np.full(7, config.collision_torque), np.array([config.collision_force] * 3 + [config.collision_force / 2] * 3)
        )
        self._senses = ForceSense(world)
        self.restart()

    def restart(self) -> None:
        """The world was reset: at rest, without errors."""
        self._senses.clear()
        self._errors: tuple[str, ...] = ()
        self._connected = True
        self._user_stopped = False
        self._following = False
        self._world.set_gains(*self._gains)
        self._hold()

    def read(self) -> RobotState:
        """See JointServo."""
        self._check_connection()
        world = self._world
        world.update_kinematics()
        return RobotState(
            stamp_s=self._clock.now(),
            q=world.q,
            dq=world.dq,
            tau_ext=self._senses.tau.copy(),
            ee=world.ee_pose(),
            wrench=self._senses.wrench.copy(),
            errors=self._errors,
            user_stopped=self._user_stopped,
            reflex=bool(self._errors),
            in_control=self._following,
        )

    def start(self) -> None:
        """See JointServo."""
        self._check_connection()
        self._check_fit()
        self._hold()
        self._following = True

    def command(self, q: Vector, dq: Vector) -> None:
        """See JointServo."""
        self._check_connection()
        self._check_fit()
        if not self._following:
            raise ArmFault("motion_ended", "the motion has ended: start a new one")
        self._world.set_reference(np.asarray(q, float), np.asarray(dq, float))

    def robot_time(self) -> float:
        """Simulated time: in lock-step the robot's clock is the clock."""
        return self._clock.now()

    def halt(self) -> None:
        """See JointServo."""
        if self._connected:
            self._brake()

    def recover(self) -> None:
        """See JointServo."""
        self._check_connection()
        if self._user_stopped:
            raise ArmFault("user_stop", "the user stop button is pressed: release it first")
        self._errors = ()
        self._senses.clear()
        self._hold()

    def reconnect(self) -> None:
        """See JointServo."""
        self._check_connection()

    def close(self) -> None:
        """See JointServo."""
        self.halt()

    def sense(self, ticks: int) -> None:
        """Feel the contacts of the last step; trips the reflex as the FR3 does, in motion only."""
        self._senses.update(ticks)
        if self._following and not self._errors:
            name = self._senses.tripped(self._limits)
            if name:
                self.trip(name)

    def trip(self, error: str) -> None:
        """The robot stops itself with ``error``."""
        self._errors = (error,)
        self._following = False
        self._hold()  # at the place itself, so that it does not press on against what it hit

    def set_connected(self, on: bool) -> None:
        """Cut or mend the connection; a robot that loses its client brakes."""
        self._connected = on
        if not on:
            self._brake()

    def set_user_stop(self, pressed: bool) -> None:
        """Press or release the user stop."""
        self._user_stopped = pressed
        if pressed:
            self._brake()

    def _brake(self) -> None:
        """The robot's own stop: from the present speed to rest within some hundredths of a second."""
        if self._following:
            self._following = False
            self._world.set_reference(self._world.q + self._world.dq * _STOP_S / 2, np.zeros(7))

    def _hold(self) -> None:
        self._world.set_reference(self._world.q, np.zeros(7))

    def _check_connection(self) -> None:
        if not self._connected:
            raise ArmFault("disconnected", "the connection to the simulated robot is cut")

    def _check_fit(self) -> None:
        if self._user_stopped:
            self._following = False
            raise ArmFault("user_stop", "the user stop button is pressed: release it")
        if self._errors:
            raise ArmFault("reflex", f"the robot has stopped itself: {', '.join(self._errors)}", self._errors)


class LockstepGripper:
    """Implements ``Gripper`` on MuJoCo's fingers; what it holds, it holds by friction."""

    def __init__(self, world: World, clock: SimClock) -> None:
        self._world = world
        self._clock = clock
        self._command_id = 0
        self.restart()

    def restart(self) -> None:
        """The world was reset: open, no command."""
        self._busy = False
        self._grasping = False
        self._force_on = False
        self._hung = False
        self._words = ""
        self._deadline = math.inf
        self._error = ""

    def status(self) -> GripperStatus:
        """See Gripper."""
        if self._busy and self._clock.now() > self._deadline:
            self._busy = False
            self._error = f"gripper_timeout: {self._words} did not end within {_GRIPPER_DEADLINE_S} s: check the gripper"
        elif self._busy and not self._hung and self._world.fingers_settled():
            self._busy = False
            self._force_on = self._grasping
        state = GripperState(self._clock.now(), self._world.gripper_width, self._force_on)
        return GripperStatus(state, self._busy, self._command_id, self._error)

    def move(self, width: float, speed: float) -> int:
        """See Gripper."""
        self._begin(f"move to {1000 * width:.1f} mm", grasping=False)
        if not self._hung:
            self._world.move_fingers(width, speed / 2)
        return self._command_id

    def grasp(self, force: float, speed: float) -> int:
        """See Gripper."""
        self._begin(f"grasp with {force:.0f} N", grasping=True)
        if not self._hung:
            self._world.grasp(0.0, speed / 2, force)
        return self._command_id

    def stop(self) -> None:
        """See Gripper."""
        if self._busy and not self._hung:
            self._world.hold_fingers()
        self._busy = False

    def close(self) -> None:
        """See Gripper."""
        self.stop()

    def hang(self, on: bool) -> None:
        """From now on commands do nothing and do not end."""
        self._hung = on

    def _begin(self, words: str, grasping: bool) -> None:
        self._command_id += 1
        self._busy, self._grasping, self._words, self._error = True, grasping, words, ""
        self._force_on = False
        self._deadline = self._clock.now() + _GRIPPER_DEADLINE_S
