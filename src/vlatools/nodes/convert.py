"""Messages to and from the types of the floors below. The only place that knows both."""

from __future__ import annotations

import array
import json
import math
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Quaternion, Vector3
from geometry_msgs.msg import Pose as PoseMsg
from geometry_msgs.msg import Wrench as WrenchMsg
from numpy.typing import NDArray
from sensor_msgs.msg import RegionOfInterest
from std_msgs.msg import Header
from vlatools_interfaces.action import InvokeTool, Locate
from vlatools_interfaces.msg import ActionChunk as ActionChunkMsg
from vlatools_interfaces.msg import ArmState as ArmStateMsg
from vlatools_interfaces.msg import DetectedObject as DetectedObjectMsg
from vlatools_interfaces.msg import InvocationRecord, ToolProgress

from vlatools.core import (
    ActionChunk,
    ActionSpace,
    Family,
    Feedback,
    Invocation,
    InvocationResult,
    MonitorOverrides,
    Outcome,
    Pose,
    ProgressSample,
    Rejected,
    Verdict,
)
from vlatools.nodes.stamps import Stamps
from vlatools.perception.ports import DetectedObject, Scene
from vlatools.robot.ports import ArmMode, ArmState, PrimitiveFeedback, PrimitiveResult, StreamStatus

BASE_FRAME = "fr3_link0"

_MODES = {mode: getattr(ArmStateMsg, mode.value) for mode in ArmMode}
_MODES_BACK = {number: mode for mode, number in _MODES.items()}
_SPACES = {
    ActionSpace.EE_POSE: ActionChunkMsg.EE_POSE,
    ActionSpace.JOINT_POSITION: ActionChunkMsg.JOINT_POSITION,
}
_SPACES_BACK = {number: space for space, number in _SPACES.items()}
VERDICTS = {
    Verdict.CONTINUE: ToolProgress.CONTINUE,
    Verdict.ADVANCE: ToolProgress.ADVANCE,
    Verdict.REPLAN: ToolProgress.REPLAN,
    Verdict.TIMEOUT: ToolProgress.TIMEOUT,
}
_VERDICTS_BACK = {number: verdict for verdict, number in VERDICTS.items()}


# -- geometry ---------------------------------------------------------------------------------------------------------


def point_to_msg(point: NDArray[np.float64] | None) -> Point:
    """Point message of (3,) metres; NaN where there is none."""
    if point is None:
        return Point(x=math.nan, y=math.nan, z=math.nan)
    return Point(x=float(point[0]), y=float(point[1]), z=float(point[2]))


def point_from_msg(msg: Point) -> NDArray[np.float64]:
    """(3,) metres."""
    return np.array([msg.x, msg.y, msg.z])


def pose_to_msg(pose: Pose | None) -> PoseMsg:
    """Pose message; NaN position where there is none."""
    if pose is None:
        return PoseMsg(position=point_to_msg(None))
    x, y, z, w = (float(v) for v in pose.quat_xyzw)
    return PoseMsg(position=point_to_msg(pose.position), orientation=Quaternion(x=x, y=y, z=z, w=w))


def pose_from_msg(msg: PoseMsg) -> Pose:
    """Pose of a message.

    Raises:
        Rejected: not finite, or a quaternion that is not of unit length.
    """
    o = msg.orientation
    try:
        return Pose(point_from_msg(msg.position), np.array([o.x, o.y, o.z, o.w]))
    except ValueError as error:
        raise Rejected("bad_argument", str(error)) from error


def _measured_pose(msg: PoseMsg) -> Pose | None:
    """Pose, or None where the sender had none."""
    return pose_from_msg(msg) if math.isfinite(msg.position.x) else None


# -- arm --------------------------------------------------------------------------------------------------------------


def arm_state_to_msg(state: ArmState, stamps: Stamps) -> ArmStateMsg:
    """ArmState message."""
    force = [float(v) for v in state.wrench]
    return ArmStateMsg(
        header=Header(stamp=stamps.to_ros(state.stamp_s), frame_id=BASE_FRAME),
        mode=_MODES[state.mode],
        ready=state.ready,
        errors=list(state.errors),
        reason=state.reason,
        ee_pose=pose_to_msg(state.ee),
        wrench=WrenchMsg(
            force=Vector3(x=force[0], y=force[1], z=force[2]), torque=Vector3(x=force[3], y=force[4], z=force[5])
        ),
        q=np.asarray(state.q, dtype=float),
        dq=np.asarray(state.dq, dtype=float),
        standstill=state.standstill,
        gripper_width=float(state.gripper_width),
        gripper_age=float(min(state.gripper_age_s, 1e6)),
        gripper_holding=state.gripper_holding,
        gripper_busy=state.gripper_busy,
        control_success_rate=float(state.success_rate),
        stream_invocation_id=state.stream.invocation_id,
        stream_chunk_index=state.stream.chunk_index,
        stream_remaining=float(state.stream.remaining_s),
        stream_clips=state.stream.clips,
        stream_refused=state.stream.refused,
    )


def arm_state_from_msg(msg: ArmStateMsg, stamps: Stamps) -> ArmState:
    """ArmState of a message."""
    f, t = msg.wrench.force, msg.wrench.torque
    return ArmState(
        stamp_s=stamps.to_monotonic(msg.header.stamp),
        mode=_MODES_BACK[msg.mode],
        ready=msg.ready,
        reason=msg.reason,
        q=np.array(msg.q),
        dq=np.array(msg.dq),
        ee=pose_from_msg(msg.ee_pose),
        wrench=np.array([f.x, f.y, f.z, t.x, t.y, t.z]),
        standstill=msg.standstill,
        gripper_width=msg.gripper_width,
        gripper_age_s=msg.gripper_age,
        gripper_holding=msg.gripper_holding,
        gripper_busy=msg.gripper_busy,
        errors=tuple(msg.errors),
        success_rate=msg.control_success_rate,
        stream=StreamStatus(
            invocation_id=msg.stream_invocation_id,
            chunk_index=msg.stream_chunk_index,
            remaining_s=msg.stream_remaining,
            clips=msg.stream_clips,
            refused=msg.stream_refused,
        ),
    )


def chunk_to_msg(chunk: ActionChunk, stamps: Stamps) -> ActionChunkMsg:
    """ActionChunk message."""
    return ActionChunkMsg(
        header=Header(stamp=stamps.to_ros(chunk.stamp_s), frame_id=BASE_FRAME),
        invocation_id=chunk.invocation_id,
        chunk_index=chunk.index,
        action_space=_SPACES[chunk.space],
        dt=chunk.dt,
        horizon=chunk.horizon,
        actions=array.array("d", chunk.actions.tobytes()),
    )


def chunk_from_msg(msg: ActionChunkMsg, stamps: Stamps) -> ActionChunk:
    """ActionChunk of a message.

    Raises:
        Rejected: another frame, an unknown action space, or a count that is not horizon x 8.
        ChunkRefused: what ActionChunk refuses.
    """
    if msg.header.frame_id not in ("", BASE_FRAME):
        raise Rejected("bad_frame", f"chunk is in frame {msg.header.frame_id!r}, it must be in {BASE_FRAME}: convert it")
    if msg.action_space not in _SPACES_BACK:
        raise Rejected("bad_action_space", f"action space {msg.action_space} is unknown, it must be one of {sorted(_SPACES_BACK)}")
    actions = np.asarray(msg.actions, dtype=float)
    if msg.horizon == 0 or actions.size != msg.horizon * 8:
        raise Rejected("wrong_shape", f"chunk has {actions.size} numbers, horizon {msg.horizon} needs {msg.horizon * 8} (8 a row)")
    return ActionChunk(
        invocation_id=msg.invocation_id,
        index=msg.chunk_index,
        space=_SPACES_BACK[msg.action_space],
        stamp_s=stamps.to_monotonic(msg.header.stamp),
        dt=msg.dt,
        actions=actions.reshape(msg.horizon, 8),
    )


def fill_primitive_result(msg: Any, result: PrimitiveResult) -> Any:
    """Fill any primitive's result message."""
    msg.outcome = result.outcome.value
    msg.reason = result.reason
    msg.message = result.message
    msg.reached = result.reached
    msg.final_pose = pose_to_msg(result.final_pose)
    msg.final_q = np.full(7, math.nan) if result.final_q is None else np.asarray(result.final_q, dtype=float)
    msg.position_error = float(result.position_error)
    msg.orientation_error = float(result.orientation_error)
    msg.gripper_width = float(result.gripper_width)
    msg.duration = float(result.duration_s)
    msg.clips = result.clips
    return msg


def primitive_result_from_msg(msg: Any) -> PrimitiveResult:
    """PrimitiveResult of any primitive's result message."""
    q = np.array(msg.final_q)
    return PrimitiveResult(
        outcome=Outcome(msg.outcome),
        reason=msg.reason,
        message=msg.message,
        reached=msg.reached,
        final_pose=_measured_pose(msg.final_pose),
        final_q=q if np.all(np.isfinite(q)) else None,
        position_error=msg.position_error,
        orientation_error=msg.orientation_error,
        gripper_width=msg.gripper_width,
        duration_s=msg.duration,
        clips=msg.clips,
    )


def fill_primitive_feedback(msg: Any, feedback: PrimitiveFeedback) -> Any:
    """Fill any primitive's feedback message."""
    msg.progress = float(feedback.progress)
    msg.position_error = float(feedback.position_error)
    msg.orientation_error = float(feedback.orientation_error)
    msg.gripper_width = float(feedback.gripper_width)
    msg.elapsed = float(feedback.elapsed_s)
    return msg


def primitive_feedback_from_msg(msg: Any) -> PrimitiveFeedback:
    """PrimitiveFeedback of any primitive's feedback message."""
    return PrimitiveFeedback(msg.progress, msg.position_error, msg.orientation_error, msg.gripper_width, msg.elapsed)


# -- tools ------------------------------------------------------------------------------------------------------------


def invocation_to_goal(invocation: Invocation) -> InvokeTool.Goal:
    """InvokeTool goal of an invocation."""
    o = invocation.overrides
    return InvokeTool.Goal(
        family=invocation.family.value,
        instruction=invocation.instruction,
        object=invocation.object,
        target=invocation.target,
        use_position=invocation.position is not None,
        position=point_to_msg(invocation.position),
        use_angle=invocation.angle is not None,
        angle=float(invocation.angle or 0.0),
        horizon=float(invocation.horizon_s or 0.0),
        completion_threshold=float(o.completion_threshold or 0.0),
        completion_hold=float(o.completion_hold_s or 0.0),
        stall_window=float(o.stall_window_s or 0.0),
        stall_gain=float(o.stall_gain or 0.0),
        invocation_id=invocation.id,
        plan_generation=invocation.plan_generation,
    )


def invocation_from_goal(goal: InvokeTool.Goal) -> Invocation:
    """Invocation of an InvokeTool goal; 0 means the default for each number.

    Raises:
        Rejected: unknown family or a bad argument.
    """
    try:
        family = Family(goal.family)
    except ValueError:
        raise Rejected(
            "bad_argument", f"family {goal.family!r} is unknown, it must be one of {', '.join(f.value for f in Family)}"
        ) from None
    given = {"id": goal.invocation_id} if goal.invocation_id else {}
    return Invocation(
        family=family,
        instruction=goal.instruction,
        object=goal.object,
        target=goal.target,
        position=point_from_msg(goal.position) if goal.use_position else None,
        angle=goal.angle if goal.use_angle else None,
        horizon_s=goal.horizon or None,
        overrides=MonitorOverrides(
            completion_threshold=goal.completion_threshold or None,
            completion_hold_s=goal.completion_hold or None,
            stall_window_s=goal.stall_window or None,
            stall_gain=goal.stall_gain or None,
        ),
        plan_generation=goal.plan_generation,
        **given,
    )


def invocation_result_to_msg(result: InvocationResult) -> InvokeTool.Result:
    """InvokeTool result."""
    return InvokeTool.Result(
        invocation_id=result.invocation.id,
        outcome=result.outcome.value,
        reason=result.reason,
        message=result.message,
        progress=float(result.progress),
        duration=float(result.duration_s),
        chunks=result.chunks,
        clips=result.clips,
        end_pose=pose_to_msg(result.end_pose),
        gripper_width=float(result.gripper_width),
        gripper_holding=result.gripper_holding,
        standstill=result.standstill,
        observation_age=float(result.observation_age_s),
        measurements_json=to_json(result.measurements),
    )


def invocation_result_from_msg(msg: InvokeTool.Result, invocation: Invocation) -> InvocationResult:
    """InvocationResult of a message."""
    return InvocationResult(
        invocation=invocation,
        outcome=Outcome(msg.outcome),
        reason=msg.reason,
        message=msg.message,
        progress=msg.progress,
        duration_s=msg.duration,
        chunks=msg.chunks,
        clips=msg.clips,
        end_pose=_measured_pose(msg.end_pose) if msg.outcome != Outcome.REJECTED.value else None,
        gripper_width=msg.gripper_width,
        gripper_holding=msg.gripper_holding,
        standstill=msg.standstill,
        observation_age_s=msg.observation_age,
        measurements=json.loads(msg.measurements_json) if msg.measurements_json else {},
    )


def feedback_to_msg(feedback: Feedback, stamps: Stamps) -> ToolProgress:
    """ToolProgress message."""
    sample = feedback.sample
    return ToolProgress(
        header=Header(stamp=stamps.to_ros(sample.time_s), frame_id=BASE_FRAME),
        invocation_id=feedback.invocation.id,
        family=feedback.invocation.family.value,
        instruction=feedback.invocation.instruction,
        progress=float(sample.progress),
        smoothed=float(sample.smoothed),
        phase=feedback.phase,
        verdict=VERDICTS[sample.verdict],
        chunk_index=max(0, feedback.chunk_index),
        observation_age=float(feedback.observation_age_s),
        elapsed=float(sample.elapsed_s),
    )


def feedback_from_msg(msg: ToolProgress, invocation: Invocation, stamps: Stamps) -> Feedback:
    """Feedback of a message."""
    sample = ProgressSample(
        time_s=stamps.to_monotonic(msg.header.stamp),
        elapsed_s=msg.elapsed,
        progress=msg.progress,
        smoothed=msg.smoothed,
        gain=math.nan,
        verdict=_VERDICTS_BACK[msg.verdict],
    )
    return Feedback(invocation, sample, msg.phase, msg.chunk_index, msg.observation_age)


def invocation_record(
    invocation: Invocation, arguments: dict[str, Any], result: InvocationResult | None, stamp: Time
) -> InvocationRecord:
    """Mirror of an invocation: STARTED without a result, FINISHED with one."""
    record = InvocationRecord(
        header=Header(stamp=stamp, frame_id=BASE_FRAME),
        event=InvocationRecord.STARTED if result is None else InvocationRecord.FINISHED,
        invocation_id=invocation.id,
        family=invocation.family.value,
        instruction=invocation.instruction,
        arguments_json=to_json(arguments),
    )
    if result is not None:
        record.outcome = result.outcome.value
        record.reason = result.reason
        record.message = result.message
        record.progress = float(result.progress)
        record.duration = float(result.duration_s)
        record.chunks = result.chunks
        record.clips = result.clips
        record.end_pose = pose_to_msg(result.end_pose)
        record.gripper_width = float(result.gripper_width)
    return record


# -- perception -------------------------------------------------------------------------------------------------------


def detected_to_msg(found: DetectedObject) -> DetectedObjectMsg:
    """DetectedObject message."""
    row0, col0, row1, col1 = found.box
    return DetectedObjectMsg(
        name=found.name,
        category=found.category,
        color=found.color,
        confidence=float(found.confidence),
        pose=pose_to_msg(found.pose),
        size=Vector3(x=float(found.size[0]), y=float(found.size[1]), z=float(found.size[2])),
        box=RegionOfInterest(x_offset=col0, y_offset=row0, width=col1 - col0, height=row1 - row0),
        pixels=found.pixels,
    )


def detected_from_msg(msg: DetectedObjectMsg) -> DetectedObject:
    """DetectedObject of a message."""
    b = msg.box
    return DetectedObject(
        name=msg.name,
        category=msg.category,
        color=msg.color,
        confidence=msg.confidence,
        pose=pose_from_msg(msg.pose),
        size=np.array([msg.size.x, msg.size.y, msg.size.z]),
        box=(b.y_offset, b.x_offset, b.y_offset + b.height, b.x_offset + b.width),
        pixels=msg.pixels,
    )


def scene_from_msg(result: Locate.Result, stamps: Stamps) -> Scene:
    """Scene of a Locate result."""
    return Scene(stamps.to_monotonic(result.header.stamp), tuple(detected_from_msg(o) for o in result.objects))


# -- plain data -------------------------------------------------------------------------------------------------------

def to_json(value: Any) -> str:
    """JSON of plain data, NumPy arrays and scalars included; NaN becomes null."""

    def plain(item: Any) -> Any:
        if isinstance(item, np.ndarray):
            return plain(item.tolist())
        if isinstance(item, np.generic):
            return plain(item.item())
        if isinstance(item, float):
            return item if math.isfinite(item) else None
        if isinstance(item, dict):
            return {str(key): plain(entry) for key, entry in item.items()}
        if isinstance(item, list | tuple | set | frozenset):
            return [plain(entry) for entry in item]
        return item

    return json.dumps(plain(value), default=str)
