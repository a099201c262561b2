"""Node ``arm``: owns the robot. Primitives as actions, chunks as a topic, state, stop and recovery.

The control loop has a thread of its own, which the ROS executor never delays. This process imports neither camera nor
torch nor a simulator.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped, WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from vlatools_interfaces.msg import ActionChunk as ActionChunkMsg
from vlatools_interfaces.msg import ArmState as ArmStateMsg
from vlatools_interfaces.msg import InvocationRecord
from vlatools_interfaces.srv import Recover, SetStop

from vlatools.config import find_config, load
from vlatools.core import ArmFault, CancelToken, ConfigError, Rejected
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.convert import (
    BASE_FRAME,
    arm_state_to_msg,
    chunk_from_msg,
    fill_primitive_feedback,
    fill_primitive_result,
    pose_to_msg,
    to_json,
)
from vlatools.nodes.goals import GoalRunner, Slot
from vlatools.nodes.primitive_goals import PRIMITIVES, PrimitiveAction
from vlatools.nodes.ros_arm import CHUNK_TOPIC, DEPTH, STATE_TOPIC
from vlatools.robot.config import ArmConfig
from vlatools.robot.controller import ArmController
from vlatools.robot.franky_gripper import FrankyGripper
from vlatools.robot.franky_servo import FrankyServo
from vlatools.robot.gripper_worker import GripperWorker
from vlatools.robot.ports import Primitive, PrimitiveFeedback, PrimitiveResult
from vlatools.shared_clock import lab_clock, lab_now

_STATE_S = 0.05
_JOINTS_S = 0.02
_DIAGNOSTICS_S = 1.0
_JOINT_NAMES = [f"fr3_joint{i}" for i in range(1, 8)] + ["fr3_finger_joint1", "fr3_finger_joint2"]


@dataclass(frozen=True)
class ArmParams:
    """Parameters of the arm node."""

    robot_ip: str = field(default="172.16.0.2", metadata={"help": "address of the robot's control unit"})
    speed: float = field(default=1.0, metadata={"help": "scale of all speeds in the configuration, above 0 up to 1"})
    config: str = field(default="robot.yaml", metadata={"help": "limits, speeds, home, gripper and gains"})
    realtime: bool = field(default=False, metadata={"help": "demand a real-time kernel (lab machine)"})

    def __post_init__(self) -> None:
        if not self.robot_ip:
            raise ConfigError("robot_ip is empty: give the address of the robot's control unit")
        if not 0 < self.speed <= 1:
            raise ConfigError(f"speed is {self.speed}, it must be above 0 and at most 1: e.g. 0.5")


class ArmNode(VlatoolsNode):
    """Adapter from ROS to the ArmController."""

    NAME = "arm"
    PARAMS = ArmParams
    params: ArmParams

    def __init__(self) -> None:
        super().__init__()
        clock = lab_clock()
        config = load(ArmConfig, find_config(self.params.config)).at_speed(self.params.speed)
        host = self.params.robot_ip
        gripper = GripperWorker(FrankyGripper(host, clock), clock, config.gripper.read_rate_hz)
        self._arm = ArmController(FrankyServo(host, config, clock, self.params.realtime), gripper, config, clock)
        self._ending = threading.Event()
        self._loop = threading.Thread(target=self._arm.spin, args=(self._ending,), name="arm-control", daemon=True)
        self._joints_stamp_s = -math.inf
        self._chunks = 0
        self._states = self.create_publisher(ArmStateMsg, STATE_TOPIC, DEPTH)
        self._joints = self.create_publisher(JointState, "/joint_states", DEPTH)
        self._poses = self.create_publisher(PoseStamped, "/arm/ee_pose", DEPTH)
        self._wrenches = self.create_publisher(WrenchStamped, "/arm/wrench", DEPTH)
        self._log = self.create_publisher(InvocationRecord, "/primitives/log", 50)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", DEPTH)
        self.create_subscription(ActionChunkMsg, CHUNK_TOPIC, self._on_chunk, DEPTH)
        self.create_service(SetStop, "/arm/stop", self.blocking(self._on_stop))
        self.create_service(SetStop, "/arm/clear_stop", self.blocking(self._on_clear_stop))
        self.create_service(Recover, "/arm/recover", self.blocking(self._on_recover))
        slot = Slot()
        for entry in PRIMITIVES:
            GoalRunner[Any, Any, Any](
                self, entry.action, f"/primitives/{entry.name}", functools.partial(self._execute, entry), slot=slot
            )
        self.create_timer(_STATE_S, self._publish_state)
        self.create_timer(_JOINTS_S, self._publish_joints)
        self.create_timer(_DIAGNOSTICS_S, self._publish_diagnostics)
        self._loop.start()

    def close(self) -> None:
        """Stop the arm and release the robot."""
        self._arm.close()
        self._ending.set()
        self._loop.join(timeout=2.0)

    # -- in -------------------------------------------------------------------------------------------------------
    def _on_chunk(self, message: ActionChunkMsg) -> None:
        self._chunks += 1
        if message.horizon == 0:  # the sender gives its stream up
            self._arm.end_stream(message.invocation_id)
            return
        try:
            self._arm.send_chunk(chunk_from_msg(message, self.stamps))
        except Rejected as refusal:
            self._arm.note_refusal(refusal)
            self.get_logger().warning(
                f"chunk {message.chunk_index} of {message.invocation_id}: {refusal}", throttle_duration_sec=1.0
            )

    def _execute(
        self, entry: PrimitiveAction, goal: Any, cancel: CancelToken, feedback: Callable[[Any], None]
    ) -> Any:
        primitive, number = entry.from_goal(goal), uuid.uuid4().hex

        def report(measured: PrimitiveFeedback) -> None:
            feedback(fill_primitive_feedback(entry.action.Feedback(), measured))

        self._log.publish(self._record(entry, primitive, number, None))
        result = self._arm.run(primitive, cancel, report)
        self._log.publish(self._record(entry, primitive, number, result))
        return fill_primitive_result(entry.action.Result(), result)

    def _on_stop(self, request: SetStop.Request, response: SetStop.Response) -> SetStop.Response:
        begin = lab_now()
        response.success = True
        response.standstill = self._arm.stop(request.reason)
        response.elapsed = lab_now() - begin if response.standstill else math.nan
        response.message = "stopped" if response.standstill else "latched, but standstill was not measured: look at the arm"
        return response

    def _on_clear_stop(self, _request: SetStop.Request, response: SetStop.Response) -> SetStop.Response:
        try:
            self._arm.clear_stop()
            response.success, response.message = True, "cleared"
        except Rejected as refusal:
            response.success, response.message = False, str(refusal)
        report = self._arm.report()
        response.standstill = report is not None and report.standstill
        response.elapsed = math.nan
        return response

    def _on_recover(self, request: Recover.Request, response: Recover.Response) -> Recover.Response:
        try:
            response.cleared = list(self._arm.recover(request.allow_collision))
            response.success, response.message = True, "recovered" if response.cleared else "there was no error"
        except ArmFault as fault:
            response.success, response.message = False, str(fault)
        return response

    # -- out ------------------------------------------------------------------------------------------------------
    def _publish_state(self) -> None:
        report = self._arm.report()
        if report is None:
            return
        message = arm_state_to_msg(report, self.stamps)
        self._states.publish(message)
        self._poses.publish(PoseStamped(header=message.header, pose=message.ee_pose))
        self._wrenches.publish(WrenchStamped(header=message.header, wrench=message.wrench))

    def _publish_joints(self) -> None:
        report = self._arm.report()
        # Nothing rather than something old: during recovery and without a connection there are no joint states.
        if report is None or report.stamp_s <= self._joints_stamp_s:
            return
        self._joints_stamp_s = report.stamp_s
        finger = 0.0 if math.isnan(report.gripper_width) else report.gripper_width / 2
        self._joints.publish(
            JointState(
                header=Header(stamp=self.stamps.to_ros(report.stamp_s), frame_id=BASE_FRAME),
                name=_JOINT_NAMES,
                position=np.concatenate([report.q, [finger, finger]]).tolist(),
                velocity=np.concatenate([report.dq, [0.0, 0.0]]).tolist(),
            )
        )

    def _publish_diagnostics(self) -> None:
        report, refusal, loop = self._arm.report(), self._arm.refusal(), self._arm.loop_times()
        values = {
            "robot_ip": self.params.robot_ip,
            "mode": self._arm.mode().value,
            "control_rate_hz": f"{loop.rate_hz:.1f}",
            "control_tick_worst_ms": f"{1000 * loop.worst_tick_s:.1f}",
            "control_gap_worst_ms": f"{1000 * loop.worst_gap_s:.1f}",
            "chunks": str(self._chunks),
        }
        if report is not None:
            values |= {
                "state_age_s": f"{lab_now() - report.stamp_s:.3f}",
                "success_rate": f"{report.success_rate:.3f}",
                "errors": ", ".join(report.errors),
                "gripper_width_m": f"{report.gripper_width:.4f}",
                "stream_clips": str(report.stream.clips),
                "stream_refused": report.stream.refused,
            }
        status = DiagnosticStatus(
            name="arm: robot",
            hardware_id=self.params.robot_ip,
            level=DiagnosticStatus.OK if refusal is None else DiagnosticStatus.ERROR,
            message="ready" if refusal is None else refusal[1],
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        self._diagnostics.publish(DiagnosticArray(header=Header(stamp=self.stamps.now()), status=[status]))

    def _record(
        self, entry: PrimitiveAction, primitive: Primitive, number: str, result: PrimitiveResult | None
    ) -> InvocationRecord:
        message = InvocationRecord(
            header=Header(stamp=self.stamps.now(), frame_id=BASE_FRAME),
            event=InvocationRecord.STARTED if result is None else InvocationRecord.FINISHED,
            invocation_id=number,
            family=entry.name,
            arguments_json=to_json(dataclasses.asdict(primitive)),
        )
        if result is not None:
            message.outcome, message.reason, message.message = result.outcome.value, result.reason, result.message
            message.duration, message.clips = float(result.duration_s), result.clips
            message.progress = 1.0 if result.reached else 0.0
            message.end_pose = pose_to_msg(result.final_pose)
            message.gripper_width = float(result.gripper_width)
        return message


def main() -> int:
    """Entry point of the process."""
    return run_node(ArmNode)


if __name__ == "__main__":
    raise SystemExit(main())
