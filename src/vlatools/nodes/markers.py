"""What rviz shows of a running task: plan targets, the current one, the chunk's path, progress, clipped commands."""

from __future__ import annotations

import math

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Vector3
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray
from vlatools_interfaces.msg import ActionChunk, ArmState, Plan, PlanStep, ToolProgress

from vlatools.nodes.convert import BASE_FRAME

_GRAY = (0.6, 0.6, 0.6, 0.8)
_CYAN = (0.0, 0.75, 0.85, 0.95)
_GREEN = (0.15, 0.7, 0.25, 0.9)
_RED = (0.85, 0.15, 0.15, 0.95)
_YELLOW = (0.95, 0.75, 0.1, 0.95)
_WHITE = (1.0, 1.0, 1.0, 0.9)
_STEP_COLORS = {PlanStep.PENDING: _GRAY, PlanStep.RUNNING: _CYAN, PlanStep.DONE: _GREEN, PlanStep.FAILED: _RED}
_VERDICT_COLORS = {
    ToolProgress.CONTINUE: _CYAN,
    ToolProgress.ADVANCE: _GREEN,
    ToolProgress.REPLAN: _YELLOW,
    ToolProgress.TIMEOUT: _RED,
}
_BAR_M = 0.20
_BAR_ABOVE_M = 0.20


def markers(
    stamp: Time, plan: Plan | None, progress: ToolProgress | None, chunk: ActionChunk | None, arm: ArmState | None
) -> MarkerArray:
    """All markers at this moment; what is no longer there is removed."""
    out = [Marker(action=Marker.DELETEALL)]
    if plan is not None:
        out += _plan(plan)
    if chunk is not None and chunk.action_space == ActionChunk.EE_POSE:
        out.append(_path(chunk))
    if arm is not None:
        if progress is not None:
            out += _progress(progress, arm.ee_pose.position)
        if arm.stream_clips or arm.stream_refused:
            out.append(_clips(arm))
    for number, marker in enumerate(out):
        marker.header = Header(stamp=stamp, frame_id=BASE_FRAME)
        marker.id = number
    return MarkerArray(markers=out)


def _marker(namespace: str, kind: int, color: tuple[float, float, float, float], scale: tuple[float, float, float]) -> Marker:
    r, g, b, a = color
    marker = Marker(ns=namespace, type=kind, action=Marker.ADD, color=ColorRGBA(r=r, g=g, b=b, a=a))
    marker.scale = Vector3(x=scale[0], y=scale[1], z=scale[2])
    marker.pose.orientation.w = 1.0
    return marker


def _plan(plan: Plan) -> list[Marker]:
    out = []
    for index, step in enumerate(plan.steps):
        if not math.isfinite(step.position.x):
            continue
        current = index == plan.current
        size = 0.03 if current else 0.015
        target = _marker("plan", Marker.SPHERE, _STEP_COLORS.get(step.status, _GRAY), (size, size, size))
        target.pose.position = step.position
        out.append(target)
        if current:
            out.append(_text("plan", f"{index + 1} {step.instruction}", step.position, 0.06, _WHITE))
    return out


def _path(chunk: ActionChunk) -> Marker:
    line = _marker("chunk", Marker.LINE_STRIP, _CYAN, (0.004, 0.0, 0.0))
    line.points = [
        Point(x=chunk.actions[8 * row], y=chunk.actions[8 * row + 1], z=chunk.actions[8 * row + 2]) for row in range(chunk.horizon)
    ]
    return line


def _progress(progress: ToolProgress, above: Point) -> list[Marker]:
    share = progress.smoothed if math.isfinite(progress.smoothed) else 0.0
    color = _VERDICT_COLORS.get(progress.verdict, _CYAN)
    out = []
    for length, offset, paint in ((_BAR_M * share, 0.0, color), (_BAR_M * (1 - share), _BAR_M * share, _GRAY)):
        if length > 1e-3:
            bar = _marker("progress", Marker.CUBE, paint, (0.012, length, 0.012))
            bar.pose.position = Point(x=above.x, y=above.y - _BAR_M / 2 + offset + length / 2, z=above.z + _BAR_ABOVE_M)
            out.append(bar)
    label = f"{progress.family} {share:.0%} {progress.phase}"
    out.append(_text("progress", label, above, _BAR_ABOVE_M + 0.03, _WHITE))
    return out


def _clips(arm: ArmState) -> Marker:
    text = f"refused: {arm.stream_refused}" if arm.stream_refused else f"{arm.stream_clips} commands clipped"
    return _text("clips", text, arm.ee_pose.position, 0.14, _YELLOW)


def _text(namespace: str, text: str, at: Point, above_m: float, color: tuple[float, float, float, float]) -> Marker:
    marker = _marker(namespace, Marker.TEXT_VIEW_FACING, color, (0.0, 0.0, 0.025))
    marker.pose.position = Point(x=at.x, y=at.y, z=at.z + above_m)
    marker.text = text
    return marker
