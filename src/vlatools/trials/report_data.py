"""What a report is made of, read from a trial's bag: invocations, progress, plans, arm path, frames, faults.

Times are seconds from the bag's start.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlatools.trials.bag_read import BagMessage, BagReader, BagUnreadable

VERDICTS = ("continue", "advance", "replan", "timeout")
ARM_MODES = (
    "DISCONNECTED",
    "IDLE",
    "MOVING",
    "STREAMING",
    "RECOVERING",
    "REFLEX",
    "USER_STOPPED",
    "STOPPED",
)
_FAULT_MODES = frozenset(("DISCONNECTED", "RECOVERING", "REFLEX", "USER_STOPPED", "STOPPED"))
# Frames are kept at most this often: enough for key frames, and a long trial does not fill the memory.
_FRAME_GAP_S = 0.15
_ARM_GAP_S = 0.04


@dataclass
class Sample:
    """One progress sample: seconds, raw and smoothed progress, verdict, phase, age of its observation."""

    t: float
    progress: float
    smoothed: float
    verdict: str
    phase: str
    age: float


@dataclass
class Call:
    """One invocation or primitive. ``end`` is None when the bag ends before it."""

    id: str
    family: str
    instruction: str
    start: float
    end: float | None = None
    outcome: str = ""
    reason: str = ""
    message: str = ""
    progress: float = math.nan
    duration: float = math.nan
    chunks: int = 0
    clips: int = 0
    object: str = ""
    target: str = ""
    position: tuple[float, float, float] | None = None
    threshold: float | None = None
    generation: int = 0
    primitive: bool = False
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True)
class ArmSample:
    """Measured tool position (m), gripper opening (m), external force (N)."""

    t: float
    position: tuple[float, float, float]
    width: float
    holding: bool
    force: float


@dataclass(frozen=True)
class Note:
    """Something worth telling: ``kind`` is that of the agent's event, or ``fault``, ``cleared``, ``refused``, ``diagnostic``."""

    t: float
    kind: str
    message: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlanVersion:
    """A plan as first published: its generation and the instructions of its steps."""

    t: float
    generation: int
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Camera:
    """Pinhole model of the recorded colour images: width, height, fx, fy, cx, cy in pixels."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float


@dataclass
class TrialData:
    """Everything that a report shows."""

    duration: float = 0.0
    calls: list[Call] = field(default_factory=list)
    plans: list[PlanVersion] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    arm: list[ArmSample] = field(default_factory=list)
    frames: list[tuple[float, bytes]] = field(default_factory=list)
    camera: Camera | None = None
    scenes: list[tuple[float, dict[str, tuple[float, float, float]]]] = field(default_factory=list)
    sizes: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    models: dict[str, dict[str, float]] = field(default_factory=dict)
    damage: str = ""

    def frame_at(self, t: float) -> tuple[float, bytes] | None:
        """The frame nearest to ``t``, None without frames."""
        if not self.frames:
            return None
        index = bisect_left(self.frames, (t, b""))
        return min(self.frames[max(0, index - 1) : index + 1], key=lambda frame: abs(frame[0] - t))

    def arm_between(self, begin: float, end: float) -> list[ArmSample]:
        """Arm samples in [begin, end]."""
        return [sample for sample in self.arm if begin <= sample.t <= end]

    def scene_at(self, t: float) -> dict[str, tuple[float, float, float]]:
        """Objects as last seen before ``t``; the first sight before there was one."""
        seen = [scene for stamp, scene in self.scenes if stamp <= t] or [scene for _, scene in self.scenes[:1]]
        merged: dict[str, tuple[float, float, float]] = {}
        for scene in seen:
            merged.update(scene)
        return merged


class _Collector:
    """Gathers messages by topic; one method per topic."""

    def __init__(self) -> None:
        self.data = TrialData()
        self.calls: dict[str, Call] = {}
        self.generations: set[tuple[str, int]] = set()
        self.mode = ""
        self.refused = ""
        self.diagnostics: dict[str, int] = {}
        self.topics: dict[str, Callable[[float, Any], None]] = {
            "/tools/log": lambda t, m: self._record(t, m, primitive=False),
            "/primitives/log": lambda t, m: self._record(t, m, primitive=True),
            "/tools/progress": self._progress,
            "/planner/plan": self._plan,
            "/planner/events": self._event,
            "/planner/ledger": self._ledger,
            "/arm/state": self._arm,
            "/diagnostics": self._diagnostic,
            "/camera/color/camera_info": self._camera_info,
            "/camera/color/image_raw/compressed": self._frame,
        }

    def add(self, t: float, message: BagMessage) -> None:
        self.topics[message.topic](t, message.decode())

    def _record(self, t: float, m: Any, primitive: bool) -> None:
        call = self.calls.get(m.invocation_id)
        if call is None:
            started = t if m.event == 0 else max(0.0, t - float(m.duration))
            call = Call(m.invocation_id, m.family, m.instruction or m.family, started, primitive=primitive)
            self.calls[m.invocation_id] = call
            self.data.calls.append(call)
            self._arguments(call, _json(m.arguments_json))
        if m.event == 1:
            call.end = t
            call.outcome, call.reason, call.message = m.outcome, m.reason, m.message
            call.progress, call.duration = float(m.progress), float(m.duration)
            call.chunks, call.clips = int(m.chunks), int(m.clips)

    @staticmethod
    def _arguments(call: Call, arguments: dict[str, Any]) -> None:
        call.object = str(arguments.get("object") or "")
        call.target = str(arguments.get("target") or "")
        call.position = _point(arguments.get("position"))
        threshold = arguments.get("completion_threshold")
        call.threshold = float(threshold) if isinstance(threshold, (int, float)) and threshold > 0 else None
        call.generation = int(arguments.get("plan_generation") or 0)

    def _progress(self, t: float, m: Any) -> None:
        call = self.calls.get(m.invocation_id)
        if call is not None:
            verdict = VERDICTS[m.verdict] if m.verdict < len(VERDICTS) else str(m.verdict)
            call.samples.append(
                Sample(t, float(m.progress), float(m.smoothed), verdict, m.phase, float(m.observation_age))
            )

    def _plan(self, t: float, m: Any) -> None:
        key = (m.task_id, int(m.generation))
        if key not in self.generations and m.steps:
            self.generations.add(key)
            self.data.plans.append(PlanVersion(t, key[1], tuple(step.instruction for step in m.steps)))

    def _event(self, t: float, m: Any) -> None:
        data = _json(m.data_json)
        if m.kind == "observed":
            objects = {name: point for name, value in data.get("objects", {}).items() if (point := _point(value))}
            if objects:
                self.data.scenes.append((t, objects))
            self.data.sizes.update({n: s for n, v in data.get("sizes", {}).items() if (s := _point(v))})
        self.data.notes.append(Note(t, m.kind, m.message, data))

    def _ledger(self, t: float, m: Any) -> None:
        entry = self.data.models.setdefault(m.model, {"calls": 0, "tokens": 0, "cost": 0.0, "latency": 0.0})
        entry["calls"] += 1
        entry["tokens"] += m.input_tokens + m.output_tokens
        entry["cost"] += 0.0 if math.isnan(m.cost_usd) else m.cost_usd
        entry["latency"] += m.latency

    def _arm(self, t: float, m: Any) -> None:
        mode = ARM_MODES[m.mode] if m.mode < len(ARM_MODES) else str(m.mode)
        if mode != self.mode:
            if mode in _FAULT_MODES:
                what = ", ".join(m.errors) or m.reason
                self.data.notes.append(Note(t, "fault", f"arm {mode}{': ' + what if what else ''}"))
            elif self.mode in _FAULT_MODES:
                self.data.notes.append(Note(t, "cleared", f"arm {mode} again"))
            self.mode = mode
        if m.stream_refused and m.stream_refused != self.refused:
            self.data.notes.append(Note(t, "refused", f"chunk refused: {m.stream_refused}"))
        self.refused = m.stream_refused
        if self.data.arm and t - self.data.arm[-1].t < _ARM_GAP_S:
            return
        p, f = m.ee_pose.position, m.wrench.force
        if math.isfinite(p.x + p.y + p.z):
            force = math.sqrt(f.x * f.x + f.y * f.y + f.z * f.z)
            self.data.arm.append(
                ArmSample(t, (p.x, p.y, p.z), float(m.gripper_width), bool(m.gripper_holding), force)
            )

    def _diagnostic(self, t: float, m: Any) -> None:
        for status in m.status:
            level = status.level if isinstance(status.level, int) else int.from_bytes(status.level, "little")
            if level > 0 and self.diagnostics.get(status.name, 0) != level:
                self.data.notes.append(Note(t, "diagnostic", f"{status.name}: {status.message}"))
            self.diagnostics[status.name] = level

    def _camera_info(self, t: float, m: Any) -> None:
        k = list(m.k)
        if k[0] > 0:
            self.data.camera = Camera(int(m.width), int(m.height), k[0], k[4], k[2], k[5])

    def _frame(self, t: float, m: Any) -> None:
        if not self.data.frames or t - self.data.frames[-1][0] >= _FRAME_GAP_S:
            self.data.frames.append((t, bytes(m.data)))


def read_trial_data(bag: Path) -> TrialData:
    """Read what a report needs; what is damaged is left out and named in ``damage``. Raises BagUnreadable without a bag."""
    reader = BagReader(bag)
    collector = _Collector()
    start: int | None = None
    last = 0
    unfit: dict[str, str] = {}
    for channel, message in reader.records():
        start = message.log_time if start is None else start
        last = message.log_time
        if channel.topic in collector.topics:
            try:
                collector.add((message.log_time - start) * 1e-9, reader.message(channel, message))
            except BagUnreadable as error:
                unfit[channel.topic] = str(error)
    data = collector.data
    data.duration = (last - start) * 1e-9 if start is not None else 0.0
    data.damage = "; ".join([*([] if reader.closed else [reader.damage]), *unfit.values()])
    data.calls.sort(key=lambda call: call.start)
    return data


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _point(value: Any) -> tuple[float, float, float] | None:
    if isinstance(value, dict):
        value = [value.get(key) for key in "xyz"]
    try:
        x, y, z = (float(v) for v in value)
    except (TypeError, ValueError):
        return None
    return (x, y, z) if math.isfinite(x + y + z) else None
