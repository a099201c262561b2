"""Ports of the robot floor: what a joint servo offers to us, and what an arm offers to tools, agents and nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vlatools.core import ActionChunk, CancelToken, Outcome, Pose


class ArmMode(str, Enum):
    """Mode of the arm; the names equal the constants of ArmState.msg."""

    DISCONNECTED = "DISCONNECTED"
    IDLE = "IDLE"
    MOVING = "MOVING"
    STREAMING = "STREAMING"
    RECOVERING = "RECOVERING"
    REFLEX = "REFLEX"
    USER_STOPPED = "USER_STOPPED"
    STOPPED = "STOPPED"


@dataclass(frozen=True)
class RobotState:
    """What the robot itself reports, one packet.

    Attributes:
        stamp_s: monotonic time at which the packet was received.
        q: measured joint positions (7,) rad.
        dq: measured joint velocities (7,) rad/s.
        tau_ext: filtered external joint torques (7,) N m.
        ee: measured pose of fr3_hand_tcp in fr3_link0.
        wrench: external wrench (6,) [N, N m] at the tool, in fr3_link0.
        errors: names of the active robot errors.
        user_stopped: the user stop button is pressed.
        reflex: the robot stopped itself.
        in_control: a motion of ours is running.
        success_rate: share of 1 kHz packets that arrived, 0 to 1.
    """

    stamp_s: float
    q: NDArray[np.float64]
    dq: NDArray[np.float64]
    tau_ext: NDArray[np.float64]
    ee: Pose
    wrench: NDArray[np.float64]
    errors: tuple[str, ...] = ()
    user_stopped: bool = False
    reflex: bool = False
    in_control: bool = False
    success_rate: float = 1.0


class JointServo(Protocol):
    """The thinnest driver: follows a joint reference. franky on the lab robot, MuJoCo in lock-step, a double in tests.

    The reference already respects every limit; the servo must not add motion of its own. When no new reference comes
    the servo holds the last one.
    """

    def read(self) -> RobotState:
        """Newest state. Raises ArmFault(``disconnected``) when the connection is lost."""
        ...

    def start(self) -> None:
        """Begin following; the reference is the current position. Raises ArmFault."""
        ...

    def command(self, q: NDArray[np.float64], dq: NDArray[np.float64]) -> None:
        """Set the reference: positions (7,) rad and velocities (7,) rad/s. Raises ArmFault when the motion has died."""
        ...

    def robot_time(self) -> float:
        """Seconds on the robot's own clock; it paces the control loop of a driver process."""
        ...

    def halt(self) -> None:
        """End following with the robot's own smooth stop. Safe to call at any time, in any state, repeatedly."""
        ...

    def recover(self) -> None:
        """Clear robot errors (0.7 to 7 s on the lab robot). Raises ArmFault when they do not clear."""
        ...

    def reconnect(self) -> None:
        """Make a new connection after a dead one. Raises ArmFault(``disconnected``) when the robot does not answer."""
        ...

    def close(self) -> None:
        """Stop and release the robot."""
        ...


@dataclass(frozen=True)
class GripperState:
    """Measured gripper state.

    Attributes:
        stamp_s: monotonic time of the measurement.
        width: full opening in metres, 0 to 0.08.
        force_on: a grasp's force is being applied.
    """

    stamp_s: float
    width: float
    force_on: bool = False


class GripperDriver(Protocol):
    """A blocking gripper, as franky offers it. Called only from the gripper's own worker thread (or in lock-step)."""

    def read(self) -> GripperState:
        """Measure; may block for about 0.1 s."""
        ...

    def move(self, width: float, speed: float) -> bool:
        """Move to a full opening [m] at a speed [m/s] without force control; blocks until done; True on success."""
        ...

    def grasp(self, force: float, speed: float) -> bool:
        """Close with force [N] and open epsilons; blocks. The return value is only the firmware's opinion."""
        ...

    def stop(self) -> None:
        """Ask a running command to end; may have no effect until it does."""
        ...


@dataclass(frozen=True)
class GripperStatus:
    """Cached state of the gripper and of its last command; reading it never blocks.

    Attributes:
        state: newest measurement, None before the first.
        busy: a command is running.
        command_id: id of the last command, 0 before the first.
        error: why the last command failed ("gripper_timeout: ..."), "" if it did not.
    """

    state: GripperState | None
    busy: bool
    command_id: int
    error: str = ""


class Gripper(Protocol):
    """A gripper that never blocks its caller: franky's behind a worker thread, the simulated one directly."""

    def status(self) -> GripperStatus:
        """Cached status."""
        ...

    def move(self, width: float, speed: float) -> int:
        """Begin moving to a full opening [m] at a speed [m/s] of the opening; replaces a running command. Command id."""
        ...

    def grasp(self, force: float, speed: float) -> int:
        """Begin closing with force [N]; replaces a running command. Command id."""
        ...

    def stop(self) -> None:
        """Give up the running command; its late result is discarded."""
        ...

    def close(self) -> None:
        """End the worker."""
        ...


@dataclass(frozen=True)
class StreamStatus:
    """State of the chunk stream.

    Attributes:
        invocation_id: invocation of the running or last stream.
        chunk_index: last chunk accepted, -1 before the first.
        remaining_s: seconds of targets left.
        clips: targets clipped since the stream's invocation began.
        refused: why the last chunk was refused, "" if it was accepted.
    """

    invocation_id: str = ""
    chunk_index: int = -1
    remaining_s: float = 0.0
    clips: int = 0
    refused: str = ""


@dataclass(frozen=True)
class ArmState:
    """What an arm reports to tools, agents and nodes.

    Attributes:
        stamp_s: monotonic time of the robot state.
        mode, ready: see ArmState.msg; ``ready`` means that a goal would be accepted.
        reason: why not ready and what to do, "" when ready.
        q, dq: measured joints (7,).
        ee: measured pose of fr3_hand_tcp in fr3_link0.
        wrench: external wrench (6,) [N, N m] in fr3_link0.
        standstill: joint speeds have been below the threshold for the standstill time.
        gripper_width: measured full opening in metres, NaN if unknown.
        gripper_age_s: age of the width.
        gripper_holding: an object is held, judged by width and force.
        gripper_busy: a gripper command is running.
        errors: active robot error names.
        success_rate: share of the robot's packets that arrived.
        stream: the chunk stream.
    """

    stamp_s: float
    mode: ArmMode
    ready: bool
    reason: str
    q: NDArray[np.float64]
    dq: NDArray[np.float64]
    ee: Pose
    wrench: NDArray[np.float64]
    standstill: bool
    gripper_width: float = math.nan
    gripper_age_s: float = math.inf
    gripper_holding: bool = False
    gripper_busy: bool = False
    errors: tuple[str, ...] = ()
    success_rate: float = 1.0
    stream: StreamStatus = field(default_factory=StreamStatus)


@dataclass(frozen=True)
class MoveTo:
    """Straight line to a position (3,) m; orientation kept unless ``yaw`` (rad) is given. ``frame``: fr3_link0 or fr3_hand_tcp."""

    position: NDArray[np.float64]
    yaw: float | None = None
    frame: str = "fr3_link0"
    speed_scale: float = 1.0
    tolerance: float = 0.012
    timeout_s: float | None = None


@dataclass(frozen=True)
class MovePose:
    """Straight line to a full pose."""

    pose: Pose
    frame: str = "fr3_link0"
    speed_scale: float = 1.0
    tolerance: float = 0.012
    orientation_tolerance: float = 0.05
    timeout_s: float | None = None


@dataclass(frozen=True)
class MoveJoints:
    """Jerk-limited, synchronised joint motion to q (7,) rad."""

    q: NDArray[np.float64]
    speed_scale: float = 1.0
    tolerance: float = 0.01
    timeout_s: float | None = None


@dataclass(frozen=True)
class FollowWaypoints:
    """Through poses in order without stopping between them."""

    poses: tuple[Pose, ...]
    speed_scale: float = 1.0
    tolerance: float = 0.012
    orientation_tolerance: float = 0.05
    timeout_s: float | None = None


@dataclass(frozen=True)
class RotateWrist:
    """Turn about base z, position kept; ``relative`` adds to the current yaw."""

    yaw: float
    relative: bool = False
    speed_scale: float = 1.0
    tolerance: float = 0.02
    timeout_s: float | None = None


@dataclass(frozen=True)
class RotatePitch:
    """Tilt about the tool's y axis, position kept; pitch 0 points straight down."""

    pitch: float
    relative: bool = False
    speed_scale: float = 1.0
    tolerance: float = 0.02
    timeout_s: float | None = None


@dataclass(frozen=True)
class Home:
    """To the configured home configuration."""

    speed_scale: float = 1.0
    timeout_s: float | None = None


@dataclass(frozen=True)
class Retreat:
    """Straight up by ``distance`` m, or as far as the workspace allows (a clip, counted)."""

    distance: float = 0.10
    speed_scale: float = 1.0
    timeout_s: float | None = None


@dataclass(frozen=True)
class SetGripper:
    """Fingers to a full opening [m] without force control."""

    width: float
    speed: float | None = None
    timeout_s: float = 5.0


@dataclass(frozen=True)
class Grasp:
    """Close with force; ``reached`` means that an object is held, judged by width. Idempotent while holding."""

    force: float | None = None
    speed: float | None = None
    min_width: float = 0.005
    timeout_s: float = 5.0


@dataclass(frozen=True)
class Release:
    """Open to ``width`` and verify; one retry."""

    width: float = 0.08
    timeout_s: float = 5.0


Primitive: TypeAlias = (
    MoveTo
    | MovePose
    | MoveJoints
    | FollowWaypoints
    | RotateWrist
    | RotatePitch
    | Home
    | Retreat
    | SetGripper
    | Grasp
    | Release
)


@dataclass(frozen=True)
class PrimitiveFeedback:
    """Measured progress of a primitive; errors are NaN where the primitive has none."""

    progress: float
    position_error: float
    orientation_error: float
    gripper_width: float
    elapsed_s: float


@dataclass(frozen=True)
class PrimitiveResult:
    """How a primitive ended, measured. ``reached``: the final error is within the tolerance."""

    outcome: Outcome
    reason: str
    message: str
    reached: bool
    final_pose: Pose | None
    final_q: NDArray[np.float64] | None
    position_error: float
    orientation_error: float
    gripper_width: float
    duration_s: float
    clips: int


class Arm(Protocol):
    """What tools and agents see of the arm, in the nodes (over ROS), in the driver process and in lock-step alike."""

    def state(self) -> ArmState:
        """Newest state. Raises StaleData(``arm_state``) when it is older than the port's age limit."""
        ...

    def send_chunk(self, chunk: ActionChunk) -> None:
        """Give targets to the stream; never blocks on motion. A newer chunk replaces what is left of the one before,
        blended. Refusals show in ``state().stream.refused`` (and are raised as ChunkRefused where the arm is local)."""
        ...

    def hold(self) -> None:
        """Drop the stream, decelerate within limits and hold. Idempotent."""
        ...

    def wait_standstill(self, timeout_s: float) -> bool:
        """True once the arm is measured to stand still; False after ``timeout_s``."""
        ...

    def run(
        self,
        primitive: Primitive,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[PrimitiveFeedback], None] | None = None,
    ) -> PrimitiveResult:
        """Run a primitive to its end; a measured failure is a result, a refusal is Outcome.REJECTED with the reason."""
        ...

    def stop(self, reason: str) -> bool:
        """Latch a stop now; True when standstill was measured."""
        ...

    def clear_stop(self) -> None:
        """Clear the latch (a person only). Raises Rejected when the robot is not at rest."""
        ...

    def recover(self, allow_collision: bool = False) -> tuple[str, ...]:
        """Clear recoverable errors; returns their names. Raises ArmFault when one is not allowed or does not clear."""
        ...
