"""The robot's side of Franka's protocol: motions, limits, reflexes and recovery of a simulated FR3."""

from __future__ import annotations

import logging
import select
import struct
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from franky_sim.franka_robot_protocol import (
    AutomaticErrorRecoveryStatus,
    MoveCommandControllerMode,
    MoveCommandMotionGeneratorMode,
    MoveStatus,
    RobotCommand,
    RobotMode,
    StateControllerMode,
    StateMotionGeneratorMode,
    UDPCommand,
)
from franky_sim.urdf import FR3_URDF
from numpy.typing import NDArray

from vlatools.robot import fr3
from vlatools.robot.model import Fr3Model
from vlatools.sim.forces import ForceSense, Thresholds
from vlatools.sim.franky_link import ClientLink
from vlatools.sim.franky_report import Aim, RobotReport
from vlatools.sim.world import World

Vector = NDArray[np.float64]

_LOG = logging.getLogger(__name__)
PORT = 1337
_VERSION = 10
_DT = 0.001
# The robot's own position control: what holds it when no torque is commanded, and what follows position commands.
_HOLD_STIFFNESS = np.array([4500.0, 4500.0, 3500.0, 3500.0, 2000.0, 2000.0, 2000.0])
_HOLD_DAMPING = np.array([200.0, 200.0, 150.0, 150.0, 60.0, 60.0, 60.0])
_BRAKE = 12.0  # rad/s^2
# Longest wait for a client's command before a step is made with the one before. It is host time: the client's process may be
# starved on a busy machine, and a torque that is held meanwhile would throw the arm.
_COMMAND_WAIT_S = 0.3
_LOST_COMMANDS = 3  # in a row end a motion
_RECOVERY_TICKS = 500
_YIELD_TICKS = 150
_COLLISIONS = ("joint_reflex", "cartesian_reflex")
_MANUAL_ERRORS = ("joint_position_limits_violation",)
_VELOCITY_TOLERANCE = 1.05
_MOVE = struct.Struct("<II6d")


class Drive(Enum):
    """What the arm does in a step."""

    HOLD = "hold"
    BRAKE = "brake"
    YIELD = "yield"
    TORQUE = "torque"
    POSITION = "position"
    VELOCITY = "velocity"
    CARTESIAN_POSITION = "cartesian_position"
    CARTESIAN_VELOCITY = "cartesian_velocity"


_DRIVES = {
    MoveCommandMotionGeneratorMode.kJointPosition: (Drive.POSITION, StateMotionGeneratorMode.kJointPosition),
    MoveCommandMotionGeneratorMode.kJointVelocity: (Drive.VELOCITY, StateMotionGeneratorMode.kJointVelocity),
    MoveCommandMotionGeneratorMode.kCartesianPosition: (
        Drive.CARTESIAN_POSITION,
        StateMotionGeneratorMode.kCartesianPosition,
    ),
    MoveCommandMotionGeneratorMode.kCartesianVelocity: (
        Drive.CARTESIAN_VELOCITY,
        StateMotionGeneratorMode.kCartesianVelocity,
    ),
}


@dataclass
class _Motion:
    command_id: int
    first_id: int  # commands that answer an older state belong to the motion before
    answered: bool = False  # the client has sent its first command
    missed: int = 0  # commands in a row that did not come in time
    command: tuple[float, ...] = field(default_factory=tuple)


class RobotServer:
    """Serves port 1337 of one robot. :meth:`before_step` and :meth:`after_step` enclose each step of the world."""

    def __init__(self, world: World, host: str) -> None:
        self._world = world
        self._senses = ForceSense(world)
        self._model = Fr3Model()
        self.link = ClientLink(host, PORT, _VERSION, "I", "Q", self._on_command, self._on_lost)
        self._state = RobotReport(world, self._model)
        self._limits = Thresholds(np.full(7, 20.0), np.full(6, 20.0))
        self._message_id = 0
        self._motion: _Motion | None = None
        self._drive = Drive.HOLD
        self._recovering: tuple[int, int] | None = None  # command id and tick of its end
        self.restart()

    # -- what the lab does to it ----------------------------------------------------------------------------------
    def restart(self) -> None:
        """The world was reset: at rest, without errors; a running motion is preempted."""
        self._end_motion(MoveStatus.kPreempted)
        self._senses.clear()
        self._errors: tuple[str, ...] = ()
        self._user_stopped = False
        self._recovering = None
        self._q_d, self._dq_d = self._world.q, np.zeros(7)
        self._ddq_d = np.zeros(7)
        self._tau_d = np.zeros(7)
        self._world.set_gains(_HOLD_STIFFNESS, _HOLD_DAMPING)
        self._switch(Drive.HOLD)

    def trip(self, error: str, why: str = "") -> None:
        """The robot stops itself with ``error``, one of ``franky_state.ERRORS``; ``why`` is for the log."""
        self._errors = (error,)
        self._end_motion(MoveStatus.kReflexAborted)
        if error in _COLLISIONS:
            self._yield_until = self._world.ticks + _YIELD_TICKS
            self._switch(Drive.YIELD)
        else:
            self._brake()
        _LOG.info("reflex: %s (%s)", error, why)

    def set_user_stop(self, pressed: bool) -> None:
        """Press or release the user stop."""
        self._user_stopped = pressed
        if pressed:
            self._end_motion(MoveStatus.kPreemptedDueToActivatedSafetyFunctions)
            self._brake()

    @property
    def errors(self) -> tuple[str, ...]:
        """Active errors."""
        return self._errors

    @property
    def moving(self) -> bool:
        """A client's motion runs, or the arm brakes: every millisecond counts."""
        return self._motion is not None or self._drive in (Drive.BRAKE, Drive.YIELD) or self._recovering is not None

    # -- the loop -------------------------------------------------------------------------------------------------
    def before_step(self) -> None:
        """Take the client's command for the next step, waiting for it if need be, and drive the arm by it."""
        self._take_command()
        match self._drive:
            case Drive.TORQUE:
                self._world.set_torque(self._tau_d)
            case Drive.BRAKE:
                self._advance_reference(self._dq_d - np.clip(self._dq_d, -_BRAKE * _DT, _BRAKE * _DT))
                if not self._dq_d.any():
                    self._switch(Drive.HOLD)
            case Drive.YIELD:
                # Damped, but without a place to hold: what the arm ran into pushes it off.
                self._q_d, self._dq_d = self._world.q, np.zeros(7)
                self._world.set_reference(self._q_d, self._dq_d)
                if self._world.ticks >= self._yield_until:
                    self._switch(Drive.HOLD)
            case _:
                pass

    def after_step(self, ticks: int) -> None:
        """Feel, judge and report after ``ticks`` steps."""
        self._message_id += ticks
        if self._recovering is not None and self._world.ticks >= self._recovering[1]:
            self.link.reply(RobotCommand.kAutomaticErrorRecovery, self._recovering[0], AutomaticErrorRecoveryStatus.kSuccess)
            self._recovering, self._errors = None, ()
            self._senses.clear()
        if self._motion is None:
            self._senses.update(ticks)
        elif self._world.ticks % 2 == 0:
            self._senses.update(2)
            self._judge()
        if self.link.connected:
            self._report()

    def _judge(self) -> None:
        q, dq = self._world.data.qpos[self._world.q_slice], self._world.data.qvel[self._world.v_slice]
        reflex = self._senses.tripped(self._limits)
        if reflex:
            self.trip(reflex, f"torques {self._senses.tau.round(1)} N m, wrench {self._senses.wrench.round(1)} N, N m")
        elif np.any(q < fr3.Q_MIN) or np.any(q > fr3.Q_MAX):
            self.trip("joint_position_limits_violation", f"joints {q.round(4)} rad")
        elif np.any(np.abs(dq) > _VELOCITY_TOLERANCE * fr3.DQ_MAX):
            self.trip("joint_velocity_violation", f"joints {dq.round(2)} rad/s")

    # -- commands of a motion -------------------------------------------------------------------------------------
    def _take_command(self) -> None:
        motion = self._motion
        if motion is None or self.link.udp is None:
            return
        fresh = self._receive(motion, _COMMAND_WAIT_S if motion.answered else 0.0)
        if self._motion is not motion:
            return  # it has just ended
        if fresh:
            motion.answered, motion.missed = True, 0
        elif motion.answered:
            motion.missed += 1
            if motion.missed >= _LOST_COMMANDS:
                self.trip("communication_constraints_violation", f"{motion.missed} commands missed")
                return
        if motion.answered:
            self._state.success_rate += 0.01 * (float(fresh) - self._state.success_rate)
            self._follow(motion.command, fresh)

    def _receive(self, motion: _Motion, wait_s: float) -> bool:
        """Newest command that answers the last state, waiting up to ``wait_s``; False if it does not come."""
        udp = self.link.udp
        assert udp is not None
        fresh = False
        while True:
            try:
                data = udp.recv(4096)
            except BlockingIOError:
                if fresh or wait_s <= 0.0 or not select.select([udp], [], [], wait_s)[0]:
                    return fresh
                wait_s = 0.0
                continue
            except OSError:
                return False  # the client has died; TCP will tell
            if len(data) < UDPCommand.STRUCT.size:
                continue
            command = UDPCommand.STRUCT.unpack_from(data)
            if command[0] <= motion.first_id:
                continue
            if command[40] or command[48]:  # motion finished
                self._end_motion(MoveStatus.kSuccess)
                if self._drive is Drive.TORQUE:
                    self._q_d, self._dq_d = self._world.q, np.zeros(7)
                self._switch(Drive.HOLD)
                return True
            motion.command = command
            fresh = True
            if command[0] >= self._message_id:
                return True

    def _follow(self, command: tuple[float, ...], fresh: bool) -> None:
        """Turn a command into torque or reference; one that did not come is extrapolated."""
        match self._drive:
            case Drive.TORQUE:
                self._tau_d = np.array(command[41:48])
            case Drive.VELOCITY:
                self._follow_velocity(np.array(command[8:15]))
            case _ if not fresh:
                self._follow_velocity(self._dq_d)
            case Drive.POSITION:
                self._follow_velocity((np.array(command[1:8]) - self._q_d) / _DT)
            case Drive.CARTESIAN_POSITION:
                target = np.array(command[15:31]).reshape(4, 4).T @ np.linalg.inv(self._state.ee)
                solved = self._model.ik(target, self._q_d, position_tolerance=1e-6, orientation_tolerance=1e-6, iterations=4)
                self._follow_velocity((solved.q - self._q_d) / _DT)
            case Drive.CARTESIAN_VELOCITY:
                jacobian = self._model.jacobian(self._q_d)
                self._follow_velocity(self._model.inverse_step(jacobian, np.array(command[31:37])))
            case _:
                pass

    def _follow_velocity(self, dq: Vector) -> None:
        if np.all(np.abs(dq) <= _VELOCITY_TOLERANCE * fr3.DQ_MAX):  # so written, NaN fails too
            self._advance_reference(dq)
        else:
            self.trip("joint_motion_generator_velocity_limits_violation", f"commanded {dq.round(2)} rad/s")

    def _advance_reference(self, dq: Vector) -> None:
        self._ddq_d = (dq - self._dq_d) / _DT
        self._q_d, self._dq_d = self._q_d + dq * _DT, dq
        self._world.set_reference(self._q_d, dq)

    # -- messages -------------------------------------------------------------------------------------------------
    def _on_command(self, command: int, command_id: int, payload: bytes) -> None:
        match command:
            case RobotCommand.kMove:
                self._on_move(command_id, payload)
                return
            case RobotCommand.kStopMove:
                self.link.reply(command, command_id, 0)
                self._end_motion(MoveStatus.kPreempted)
                self._brake()
                return
            case RobotCommand.kAutomaticErrorRecovery:
                self._on_recovery(command_id)
                return
            case RobotCommand.kGetRobotModel:
                self.link.reply(command, command_id, 0, FR3_URDF.encode("ascii"))
                return
            case RobotCommand.kSetCollisionBehavior:
                values = np.array(struct.unpack_from("<52d", payload))
                self._limits = Thresholds(values[21:28], values[46:52])  # upper thresholds, nominal
            case RobotCommand.kSetNEToEE:
                self._state.set_ee(np.array(struct.unpack_from("<16d", payload)).reshape(4, 4).T)
            case RobotCommand.kSetEEToK:
                self._state["EE_T_K"][:] = struct.unpack_from("<16d", payload)
            case RobotCommand.kSetLoad:
                values = np.array(struct.unpack_from("<13d", payload))
                self._state.set_load(float(values[0]), values[1:4], values[4:13])
                self._world.set_load(float(values[0]), values[1:4])
            case _:
                pass  # the impedances of the internal controller have no counterpart here
        self.link.reply(command, command_id, 0)

    def _on_move(self, command_id: int, payload: bytes) -> None:
        controller, generator = _MOVE.unpack_from(payload)[:2]
        if self._user_stopped:
            self.link.reply(RobotCommand.kMove, command_id, MoveStatus.kCommandRejectedDueToActivatedSafetyFunctions)
            return
        if self._errors or self._recovering is not None or self._motion is not None:
            self.link.reply(RobotCommand.kMove, command_id, MoveStatus.kCommandNotPossibleRejected)
            return
        self._motion = _Motion(command_id, self._message_id)
        self._state.success_rate = 1.0
        if controller == MoveCommandControllerMode.kExternalController:
            self._tau_d = np.zeros(7)
            self._switch(Drive.TORQUE)
            self._state.controller = StateControllerMode.kExternalController
            self._state.generator = StateMotionGeneratorMode.kNone
        else:
            drive, self._state.generator = _DRIVES[MoveCommandMotionGeneratorMode(generator)]
            self._state.controller = (
                StateControllerMode.kJointImpedance
                if controller == MoveCommandControllerMode.kJointImpedance
                else StateControllerMode.kCartesianImpedance
            )
            self._switch(drive)
        self.link.reply(RobotCommand.kMove, command_id, MoveStatus.kMotionStarted)

    def _on_recovery(self, command_id: int) -> None:
        status = None
        if self._user_stopped:
            status = AutomaticErrorRecoveryStatus.kCommandRejectedDueToActivatedSafetyFunctions
        elif any(name in _MANUAL_ERRORS for name in self._errors):
            status = AutomaticErrorRecoveryStatus.kManualErrorRecoveryRequiredRejected
        elif self._recovering is not None:
            status = AutomaticErrorRecoveryStatus.kCommandNotPossibleRejected
        if status is None:
            self._recovering = (command_id, self._world.ticks + _RECOVERY_TICKS)
        else:
            self.link.reply(RobotCommand.kAutomaticErrorRecovery, command_id, status)

    def _on_lost(self) -> None:
        self._motion = None
        self._recovering = None
        self._message_id = 0
        self._idle_modes()
        self._brake()
        _LOG.info("the client has gone")

    def _end_motion(self, status: MoveStatus) -> None:
        motion, self._motion = self._motion, None
        if motion is not None:
            self.link.reply(RobotCommand.kMove, motion.command_id, status)
        self._idle_modes()

    def _idle_modes(self) -> None:
        self._state.controller, self._state.generator = StateControllerMode.kOther, StateMotionGeneratorMode.kIdle

    def _brake(self) -> None:
        """Decelerate from the present motion, then hold."""
        if self._drive in (Drive.HOLD, Drive.BRAKE, Drive.YIELD):
            return
        if self._drive is Drive.TORQUE:
            self._q_d, self._dq_d = self._world.q, self._world.dq
        self._switch(Drive.BRAKE)

    def _switch(self, drive: Drive) -> None:
        self._drive = drive
        self._world.use_impedance(drive is not Drive.TORQUE)
        if drive is Drive.HOLD:
            self._dq_d, self._ddq_d = np.zeros(7), np.zeros(7)
        self._world.set_reference(self._q_d, self._dq_d)

    # -- state ----------------------------------------------------------------------------------------------------
    def _report(self) -> None:
        torque = self._drive is Drive.TORQUE
        aim = None if torque else Aim(self._q_d, self._dq_d, self._ddq_d)
        packet = self._state
        packet.write(aim, self._tau_d, self._senses)
        packet.set_errors(self._errors)
        packet.mode = self._mode()
        self.link.send_state(self._message_id, packet.pack())

    def _mode(self) -> RobotMode:
        if self._user_stopped:
            return RobotMode.kUserStopped
        if self._recovering is not None:
            return RobotMode.kAutomaticErrorRecovery
        if self._errors:
            return RobotMode.kReflex
        return RobotMode.kMove if self._motion is not None else RobotMode.kIdle
