"""The Franka Hand's side of the protocol: commands that take their time, and a grasp that is judged by what is held."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from franky_sim.franka_gripper_protocol import GripperCommand, GripperCommandStatus

from vlatools.robot.fr3 import MAX_OPENING
from vlatools.sim.franky_link import ClientLink
from vlatools.sim.world import FINGER_SPEED, World

PORT = 1338
_VERSION = 3
_STATE = struct.Struct("<dd?H")
_STATE_TICKS = 20
_REACHED = 0.004  # m
_EMPTY = 0.001  # m; a narrower opening holds nothing
_SLIPPED = 0.004  # m that the fingers close further after a grasp when its object has gone


@dataclass
class _Running:
    command: GripperCommand
    command_id: int
    low: float  # width with which it succeeds, m
    high: float


class GripperServer:
    """Serves port 1338. Speeds are of one finger, up to 0.05 m/s, as in franky-sim; widths are full openings."""

    def __init__(self, world: World, host: str) -> None:
        self._world = world
        self.link = ClientLink(host, PORT, _VERSION, "H", "I", self._on_command, self._on_lost)
        self._message_id = 0
        self.hung = False
        self._running: _Running | None = None
        self._grasped: float | None = None

    def restart(self) -> None:
        """The world was reset: open, no command."""
        self._end(GripperCommandStatus.kAborted)
        self._grasped = None
        self.hung = False

    def after_step(self) -> None:
        """Judge the running command, report."""
        if self._running is not None and not self.hung and self._world.fingers_settled():
            self._finish(self._running)
        if self._world.ticks % _STATE_TICKS == 0 and self.link.connected:
            self._message_id += 1
            width = self._world.gripper_width
            holds = self._grasped is not None and abs(width - self._grasped) < _SLIPPED
            self.link.send_state(self._message_id, _STATE.pack(width, MAX_OPENING, holds, 25))

    def _finish(self, running: _Running) -> None:
        width = self._world.gripper_width
        if running.command is GripperCommand.kHoming and running.low > 0.0:
            # Homing closes first and then opens fully, to learn the widest opening.
            done = running.low <= width
            self._end(GripperCommandStatus.kSuccess if done else GripperCommandStatus.kFail)
            return
        if running.command is GripperCommand.kHoming:
            self._running = _Running(running.command, running.command_id, MAX_OPENING - _REACHED, 1.0)
            self._world.move_fingers(MAX_OPENING, FINGER_SPEED)
            return
        success = running.low <= width <= running.high
        if running.command is GripperCommand.kGrasp and width < _EMPTY:
            success = False
        if running.command is GripperCommand.kGrasp and success:
            self._grasped = width
        self._end(GripperCommandStatus.kSuccess if success else GripperCommandStatus.kUnsuccessful)

    def _on_command(self, command: int, command_id: int, payload: bytes) -> None:
        kind = GripperCommand(command)
        if self.hung:
            return
        self._end(GripperCommandStatus.kAborted)
        self._grasped = None
        match kind:
            case GripperCommand.kMove:
                width, speed = struct.unpack_from("<2d", payload)
                self._running = _Running(kind, command_id, width - _REACHED, width + _REACHED)
                self._world.move_fingers(width, speed)
            case GripperCommand.kGrasp:
                width, inner, outer, speed, force = struct.unpack_from("<5d", payload)
                self._running = _Running(kind, command_id, width - inner, width + outer)
                self._world.grasp(width, speed, min(max(force, 1.0), 70.0))
            case GripperCommand.kHoming:
                self._running = _Running(kind, command_id, 0.0, 0.0)
                self._world.move_fingers(0.0, FINGER_SPEED)
            case GripperCommand.kStop:
                self._world.hold_fingers()
                self.link.reply(kind, command_id, GripperCommandStatus.kSuccess)

    def _end(self, status: GripperCommandStatus) -> None:
        running, self._running = self._running, None
        if running is not None:
            self.link.reply(running.command, running.command_id, status)

    def _on_lost(self) -> None:
        # The Franka Hand goes on with what it does; only the answer has nobody to go to.
        self._running = None
        self._message_id = 0
