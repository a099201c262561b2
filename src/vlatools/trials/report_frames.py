"""Key frames of a trial: pictures at the start, at each invocation's end and at the end, with target and gripper path drawn over them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

import cv2
import numpy as np
from numpy.typing import NDArray

from vlatools.core import Pose
from vlatools.trials.report_data import Call, Camera, TrialData

WIDTH = 560
QUALITY = 78
MAX_FRAMES = 48
_MIN_DEPTH_M = 0.05
# Corners of what is looked at: the workspace and the air above it where the gripper works.
_SUBJECT = tuple((x, y, z) for x in (0.28, 0.74) for y in (-0.30, 0.30) for z in (0.0, 0.16))


@dataclass(frozen=True)
class KeyFrame:
    """A picture with its overlay.

    Attributes:
        title, note: what it shows.
        t: seconds from the bag's start.
        image: data URI of a JPEG.
        overlay: SVG that lies over it, "" without a calibrated camera.
        family, outcome: of its invocation, "" for the first and the last.
    """

    title: str
    note: str
    t: float
    image: str
    overlay: str
    family: str = ""
    outcome: str = ""


class Projector:
    """Projects points of fr3_link0 into the recorded colour image."""

    def __init__(self, camera: Camera, pose: Pose) -> None:
        self.camera = camera
        self._base_to_camera = pose.inverse()
        self.window = self._window()

    def __call__(self, points: Iterable[Iterable[float]]) -> list[tuple[float, float] | None]:
        """Pixels (u to the right, v down) of points (N, 3); None for those behind the camera."""
        array = np.array([tuple(p) for p in points], dtype=float).reshape(-1, 3)
        local = array @ self._base_to_camera.rotation.T + self._base_to_camera.position
        c = self.camera
        return [
            (c.fx * x / z + c.cx, c.fy * y / z + c.cy) if z > _MIN_DEPTH_M else None for x, y, z in local
        ]

    @property
    def scale(self) -> float:
        """Pixels of the picture per pixel of a window 480 wide, for which the sizes of marks are meant."""
        return self.window[2] / 480

    def _window(self) -> tuple[int, int, int, int]:
        """The part of the image that shows the workspace: left, top, width, height in pixels, shaped like the image."""
        c = self.camera
        seen = [p for p in self(_SUBJECT) if p is not None]
        if len(seen) < len(_SUBJECT):
            return 0, 0, c.width, c.height
        us, vs = [u for u, _ in seen], [v for _, v in seen]
        share = max((max(us) - min(us)) / c.width, (max(vs) - min(vs)) / c.height)
        if share >= 1.0:
            return 0, 0, c.width, c.height
        width, height = round(share * c.width), round(share * c.height)
        left = min(max(0, round((max(us) + min(us) - width) / 2)), c.width - width)
        top = min(max(0, round((max(vs) + min(vs) - height) / 2)), c.height - height)
        return left, top, width, height


def projector(data: TrialData, calibration: dict[str, object]) -> Projector | None:
    """A projector from the trial's calibration entry; None when camera or calibration are not known."""
    position, quat = calibration.get("position"), calibration.get("quat_xyzw")
    if data.camera is None or not isinstance(position, (list, tuple)) or not isinstance(quat, (list, tuple)):
        return None
    try:
        return Projector(data.camera, Pose(np.array(position, dtype=float), np.array(quat, dtype=float)))
    except ValueError:
        return None


def key_frames(data: TrialData, project: Projector | None) -> list[KeyFrame]:
    """The key frames in order; empty without images. Very long trials keep their first, last and the failed ones."""
    if not data.frames:
        return []
    calls = [call for call in data.calls if not call.primitive and call.end is not None]
    if len(calls) > MAX_FRAMES - 2:
        failed = [call for call in calls if call.outcome != "COMPLETED"][: MAX_FRAMES // 2]
        step = -(-len(calls) // (MAX_FRAMES - 2 - len(failed)))
        kept = {id(call) for call in (*calls[::step], *failed)}
        calls = [call for call in calls if id(call) in kept]
    first_t, last_t = data.frames[0][0], data.frames[-1][0]
    window = project.window if project else None
    found = [_frame(data, window, first_t, "Start", "objects as first seen", _objects(data, project, first_t))]
    for call in calls:
        found.append(
            _frame(
                data,
                window,
                call.end or 0.0,
                call.instruction,
                call.outcome if call.outcome == "COMPLETED" else f"{call.outcome} {call.reason}".strip(),
                _call_overlay(data, project, call),
                call.family,
                call.outcome,
            )
        )
    found.append(_frame(data, window, last_t, "End", "objects as last seen", _objects(data, project, last_t)))
    return [frame for frame in found if frame is not None]


def _frame(
    data: TrialData,
    window: tuple[int, int, int, int] | None,
    t: float,
    title: str,
    note: str,
    overlay: str,
    family: str = "",
    outcome: str = "",
) -> KeyFrame | None:
    nearest = data.frame_at(t)
    image = _shrink(nearest[1], window) if nearest else None
    if nearest is None or image is None:
        return None
    return KeyFrame(title, note, nearest[0], image, overlay, family, outcome)


def _shrink(jpeg: bytes, window: tuple[int, int, int, int] | None) -> str | None:
    """Data URI of the picture's window at ``WIDTH`` or less; None when it cannot be decoded."""
    image = cv2.imdecode(np.frombuffer(jpeg, dtype=np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        return None
    if window is not None:
        left, top, width, height = window
        image = image[top : top + height, left : left + width]
    scale = min(1.0, WIDTH / image.shape[1])
    small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else image
    data: NDArray[np.uint8] = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1]
    return "data:image/jpeg;base64," + base64.b64encode(data.tobytes()).decode()


def _svg(project: Projector, parts: list[str]) -> str:
    if not parts:
        return ""
    left, top, width, height = project.window
    return f'<svg viewBox="{left} {top} {width} {height}" aria-hidden="true">{"".join(parts)}</svg>'


def _call_overlay(data: TrialData, project: Projector | None, call: Call) -> str:
    if project is None:
        return ""
    parts = []
    samples = data.arm_between(call.start, call.end or call.start)[::3]
    pixels = [p for p in project(s.position for s in samples) if p is not None] if samples else []
    if len(pixels) > 1:
        points = " ".join(f"{u:.0f},{v:.0f}" for u, v in pixels)
        parts.append(f'<polyline class="halo" points="{points}"/>')
        parts.append(f'<polyline class="path f-{escape(call.family)}" points="{points}"/>')
        u, v = pixels[-1]
        parts.append(f'<circle class="tip f-{escape(call.family)}" cx="{u:.0f}" cy="{v:.0f}" r="{6 * project.scale:.0f}"/>')
    target = call.position or data.scene_at(call.end or call.start).get(call.target or call.object)
    if target is not None:
        pixel = project([target])[0]
        if pixel is not None:
            parts.append(_cross(project, *pixel))
            parts.append(_label(project, *pixel, call.target or call.object or "target"))
    return _svg(project, parts)


def _objects(data: TrialData, project: Projector | None, t: float) -> str:
    if project is None:
        return ""
    parts = []
    taken: list[tuple[float, float]] = []
    for name, point in sorted(data.scene_at(t).items(), key=lambda item: -item[1][2]):
        pixel = project([point])[0]
        if pixel is not None:
            u, v = pixel
            parts.append(f'<circle class="spot" cx="{u:.0f}" cy="{v:.0f}" r="{4.5 * project.scale:.1f}"/>')
            # Names of things on top of each other stand below each other.
            while any(abs(u - x) < 80 * project.scale and abs(v - y) < 25 * project.scale for x, y in taken):
                v += 13 * project.scale
            taken.append((u, v))
            parts.append(_label(project, u, v, name))
    return _svg(project, parts)


def _cross(project: Projector, u: float, v: float) -> str:
    k = project.scale
    lines = "".join(
        f"M{u + a * 7 * k:.0f},{v + b * 7 * k:.0f}L{u + a * 17 * k:.0f},{v + b * 17 * k:.0f}"
        for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))
    )
    ring = f'cx="{u:.0f}" cy="{v:.0f}" r="{11 * k:.0f}"'
    return f'<circle class="halo" {ring}/><path class="halo" d="{lines}"/><circle class="aim" {ring}/><path class="aim" d="{lines}"/>'


def _label(project: Projector, u: float, v: float, text: str) -> str:
    left, top, across, down = project.window
    k = project.scale
    width, height = (8.6 * len(text) + 16) * k, 24 * k
    x = min(max(left + 4.0, u - width / 2), left + across - width - 4)
    y = v + 17 * k if v + 45 * k < top + down else v - 41 * k
    return (
        f'<rect class="tag" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="{height / 2:.0f}"/>'
        f'<text class="tagtext" style="font-size:{14.5 * k:.1f}px" x="{x + width / 2:.0f}" y="{y + 16.8 * k:.0f}">{escape(text)}</text>'
    )
