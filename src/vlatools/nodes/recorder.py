"""Node ``recorder``: one folder with one bag per trial, by /recorder/start and /recorder/stop. Messages pass through unserialised."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from vlatools_interfaces.msg import TrialEvent
from vlatools_interfaces.srv import StartRecording, StopRecording

from vlatools.config import find_config
from vlatools.core import ConfigError, MonotonicClock, VlatoolsError
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.recorded_images import (
    COLOR_SUFFIX,
    COMPRESSED_TYPE,
    DEPTH_SUFFIX,
    compress_color,
    compress_depth,
)
from vlatools.nodes.ros_camera import COLOR_TOPIC, DEPTH_TOPIC
from vlatools.nodes.taps import Tap, Taps
from vlatools.shared_clock import lab_now
from vlatools.trials.bag import BagCheck, BagLimits, BagWriter
from vlatools.trials.bag_info import BagInfo, bag_info
from vlatools.trials.bag_metadata import BagTopic, TopicQos
from vlatools.trials.bag_read import BagUnreadable
from vlatools.trials.invocations import invocations_of
from vlatools.trials.provenance import provenance
from vlatools.trials.record import FINISHED, INTERRUPTED, Trial, begin_trial, end_trial, recording_entry
from vlatools.trials.report import write_report
from vlatools.trials.schemas import schema

TOPICS = (
    "/joint_states",
    "/arm/state",
    "/arm/ee_pose",
    "/arm/wrench",
    "/arm/action_chunk",
    "/tools/progress",
    "/tools/log",
    "/tools/manifest",
    "/primitives/log",
    "/planner/plan",
    "/planner/events",
    "/planner/ledger",
    "/camera/color/camera_info",
    "/camera/aligned_depth_to_color/camera_info",
    "/diagnostics",
    "/tf_static",
    "/rosout",
)
EVENTS = "/trial/events"
# What was said once, before the trial, and holds in it. (A latched plan does not: it belongs to the task before.)
CARRIED = ("/tf_static", "/tools/manifest")
_CARRIED_MESSAGES = 16
_FOLLOW_S = 0.25
_QUEUE_DEPTH = 200
_IMAGE_DEPTH = 2
_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@dataclass(frozen=True)
class RecorderParams:
    """Parameters of the recorder node."""

    root: str = field(default="trials", metadata={"help": "folder in which each trial gets a folder"})
    calibration: str = field(default="calibration/sim_d435.yaml", metadata={"help": "camera calibration kept with the trial"})
    topics: tuple[str, ...] = field(default=TOPICS, metadata={"help": "topics recorded as they are"})
    color_topic: str = field(default=COLOR_TOPIC, metadata={"help": "colour image, recorded as JPEG; empty: none"})
    depth_topic: str = field(default=DEPTH_TOPIC, metadata={"help": "depth image, recorded as 16-bit PNG; empty: none"})
    image_hz: float = field(default=5.0, metadata={"help": "highest rate of recorded images, Hz, above 0"})
    jpeg_quality: int = field(default=88, metadata={"help": "1 to 100"})
    expected_hz: tuple[str, ...] = field(
        default=("/arm/state 40", "/joint_states 40", f"{COLOR_TOPIC}{COLOR_SUFFIX} 4"),
        metadata={"help": "'topic rate': rates that a sound recording has; trial.json says whether they were met"},
    )
    flush_s: float = field(default=0.5, metadata={"help": "what SIGKILL can take: data younger than about this, s, up to 1"})
    queue_mb: int = field(default=64, metadata={"help": "bound of the queue before the disk, MB"})
    min_free_mb: int = field(default=256, metadata={"help": "recording ends when the disk has less free, MB"})
    linger_s: float = field(default=0.5, metadata={"help": "recording goes on for this long after /recorder/stop, s"})
    report: bool = field(default=True, metadata={"help": "make report.html at the end of each trial"})

    def __post_init__(self) -> None:
        for key, low, high in (
            ("image_hz", 0.1, 60.0),
            ("jpeg_quality", 1, 100),
            ("flush_s", 0.05, 1.0),
            ("queue_mb", 1, 4096),
            ("min_free_mb", 0, 1_000_000),
            ("linger_s", 0.0, 10.0),
        ):
            value = getattr(self, key)
            if not low <= value <= high:
                raise ConfigError(f"{key} is {value}, it must be {low:g} to {high:g}: change it")
        if not self.root.strip():
            raise ConfigError("root is empty: name the folder in which trials are kept")
        _ = self.expected

    @property
    def expected(self) -> dict[str, float]:
        """Expected rate by topic, Hz."""
        found = {}
        for line in self.expected_hz:
            name, _, text = line.strip().rpartition(" ")
            try:
                found[name] = float(text)
            except ValueError:
                found[name] = math.nan
            if not name.startswith("/") or not found[name] > 0:
                raise ConfigError(f"expected_hz holds '{line}', it must be '/topic rate', e.g. '/joint_states 40'")
        return found

    @property
    def limits(self) -> BagLimits:
        """Bounds of a bag."""
        return BagLimits(
            queue_bytes=self.queue_mb * 1_000_000, flush_s=self.flush_s, min_free_bytes=self.min_free_mb * 1_000_000
        )


@dataclass
class _Recording:
    """The trial that is being recorded."""

    trial: Trial
    writer: BagWriter
    image_due_s: dict[str, float] = field(default_factory=dict)


class RecorderNode(VlatoolsNode):
    """Records the wanted topics of the graph into one bag per trial, and ends a running trial on SIGTERM."""

    NAME = "recorder"
    PARAMS = RecorderParams
    params: RecorderParams

    def __init__(self) -> None:
        super().__init__()
        self._calibration = find_config(self.params.calibration)
        self._images = tuple(topic for topic in (self.params.color_topic, self.params.depth_topic) if topic)
        self._recording: _Recording | None = None
        self._carried: dict[str, deque[bytes]] = {}
        self._last_error = ""
        self._lifecycle = threading.Lock()
        self._taps = Taps(self, self._receive, _QUEUE_DEPTH)
        self._image_taps = Taps(self, self._receive_image, _IMAGE_DEPTH)
        self._events = self.create_publisher(TrialEvent, EVENTS, _LATCHED)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_service(StartRecording, "/recorder/start", self.blocking(self._start))
        self.create_service(StopRecording, "/recorder/stop", self.blocking(self._stop))
        self.create_timer(_FOLLOW_S, self._follow)
        self.create_timer(1.0, self._diagnose)
        self._follow()

    def close(self) -> None:
        """End a running trial as interrupted; its bag is closed and checked."""
        with self._lifecycle:
            self._end("", "the recorder was ended before the trial was", {}, INTERRUPTED)

    def _follow(self) -> None:
        """Subscribe to what has appeared. Images only while recording: they cost a copy each."""
        for tap in self._taps.follow(self.params.topics):
            self._register(tap)
        if self._recording is not None:
            self._image_taps.follow(self._images)
        else:
            self._image_taps.release(self._images)

    def _register(self, tap: Tap) -> None:
        recording = self._recording
        if recording is not None:
            recording.writer.add_topic(BagTopic(tap.topic, tap.schema, tap.qos))

    def _receive(self, tap: Tap, data: bytes) -> None:
        if tap.topic in CARRIED:
            kept = self._carried.setdefault(tap.topic, deque(maxlen=_CARRIED_MESSAGES))
            if data not in kept:
                kept.append(data)
        recording = self._recording
        if recording is not None:
            if tap.topic not in recording.writer:
                self._register(tap)
            recording.writer.put(tap.topic, self._stamp(), data)

    def _receive_image(self, tap: Tap, data: bytes) -> None:
        recording = self._recording
        now, period = lab_now(), 1.0 / self.params.image_hz
        if recording is None or now < recording.image_due_s.get(tap.topic, 0.0):
            return
        # Due times keep their raster, so that 15 Hz thinned to 5 Hz is every third frame and not every fourth.
        due = recording.image_due_s.get(tap.topic, now)
        recording.image_due_s[tap.topic] = due + period if now - due < period else now + period
        if tap.topic == self.params.color_topic:
            name, encode = tap.topic + COLOR_SUFFIX, functools.partial(compress_color, data, self.params.jpeg_quality)
        else:
            name, encode = tap.topic + DEPTH_SUFFIX, functools.partial(compress_depth, data)
        recording.writer.put(name, self._stamp(), encode, size=len(data))

    def _stamp(self) -> int:
        now = self.stamps.now()
        return int(now.sec * 1_000_000_000 + now.nanosec)

    def _start(self, request: StartRecording.Request, response: StartRecording.Response) -> StartRecording.Response:
        with self._lifecycle:
            try:
                metadata = _object(request.metadata_json, "metadata_json")
                if self._recording is not None:
                    self._end("", "a new trial was begun before this one was ended", {}, INTERRUPTED)
                trial = self._begin(request, metadata)
            except VlatoolsError as error:
                response.success, response.message = False, str(error)
                self.get_logger().error(response.message)
                return response
        response.success, response.trial_id, response.folder = True, trial.trial_id, str(trial.path)
        response.message = f"recording {trial.path}"
        self.get_logger().info(response.message)
        return response

    def _begin(self, request: StartRecording.Request, metadata: dict[str, Any]) -> Trial:
        trial = begin_trial(
            Path(self.params.root),
            request.instruction,
            request.task,
            int(request.seed),
            _now(),
            request.trial_id,
            metadata,
            provenance(self._calibration),
        )
        writer = BagWriter(trial.bag, MonotonicClock(), self.params.limits)
        writer.add_topic(BagTopic(EVENTS, schema("vlatools_interfaces/msg/TrialEvent"), TopicQos(latched=True)))
        for topic, suffix in ((self.params.color_topic, COLOR_SUFFIX), (self.params.depth_topic, DEPTH_SUFFIX)):
            if topic:
                writer.add_topic(BagTopic(topic + suffix, schema(COMPRESSED_TYPE), TopicQos(), bulky=True))
        recording = _Recording(trial, writer)
        for tap in self._taps.open:
            writer.add_topic(BagTopic(tap.topic, tap.schema, tap.qos))
        self._last_error = ""
        self._tell(recording, TrialEvent.STARTED, request.instruction)
        for topic, kept in list(self._carried.items()):
            for data in list(kept):
                writer.put(topic, self._stamp(), data)
        self._recording = recording
        return trial

    def _stop(self, request: StopRecording.Request, response: StopRecording.Response) -> StopRecording.Response:
        with self._lifecycle:
            try:
                result = _object(request.result_json, "result_json")
            except VlatoolsError as error:
                # The recording ends all the same: losing the trial over a broken field would be worse.
                result = {"result_json": request.result_json}
                self.get_logger().error(str(error))
            if self._recording is None:
                response.message = "no trial is being recorded: begin one with /recorder/start"
                return response
            # The last results and pictures are still on their way.
            time.sleep(self.params.linger_s)
            ended = self._end(request.outcome, request.message, result, FINISHED)
        if ended is None:
            response.message = "the trial could not be ended: see the recorder's log"
            return response
        trial, check = ended
        response.success, response.folder = check.ok, str(trial.path)
        response.messages, response.dropped = check.written, check.dropped
        response.message = check.error or f"{check.written} messages, {check.dropped} dropped"
        return response

    def _end(self, outcome: str, message: str, result: dict[str, Any], status: str) -> tuple[Trial, BagCheck] | None:
        """Close the running trial, whatever fails on the way; None when there is none."""
        recording = self._recording
        if recording is None:
            return None
        with contextlib.suppress(Exception):  # the context may be gone when a signal ends the node
            self._tell(recording, TrialEvent.FINISHED, outcome or message)
        self._recording = None
        check = recording.writer.close()
        self._last_error = check.error
        info: BagInfo | None = None
        with contextlib.suppress(BagUnreadable, OSError):
            info = bag_info(recording.trial.bag)
        entry = recording_entry(check, info, self.params.expected)
        trial = recording.trial
        if not result.get("invocations"):
            result = {**result, "invocations": invocations_of(trial.bag)}
        try:
            trial = end_trial(trial, _now(), outcome, message, result, entry, status)
            if self.params.report and status == FINISHED:
                write_report(trial.path)
        except Exception as error:
            self._last_error = f"{trial.path}: the trial's end could not be written: {error}"
            self.get_logger().error(self._last_error)
        return trial, check

    def _tell(self, recording: _Recording, event: int, message: str) -> None:
        """Publish a trial event, and put it into the bag directly, so that it is surely there."""
        told = TrialEvent(event=event, trial_id=recording.trial.trial_id, message=message, data_json="{}")
        told.header.stamp = self.stamps.now()
        recording.writer.put(EVENTS, self._stamp(), bytes(serialize_message(told)))
        self._events.publish(told)

    def _diagnose(self) -> None:
        recording = self._recording
        error = recording.writer.error if recording else self._last_error
        status = DiagnosticStatus(name="recorder", hardware_id="", level=DiagnosticStatus.ERROR if error else DiagnosticStatus.OK)
        status.message = error or (f"recording {recording.trial.path.name}" if recording else "idle")
        if recording is not None:
            counts = recording.writer.counts().values()
            status.values = [
                KeyValue(key="written", value=str(sum(count.written for count in counts))),
                KeyValue(key="dropped", value=str(sum(count.dropped for count in counts))),
            ]
        self._diagnostics.publish(DiagnosticArray(header=_header(self), status=[status]))


def _header(node: VlatoolsNode) -> Any:
    header = DiagnosticArray().header
    header.stamp = node.stamps.now()
    return header


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError as error:
        raise ConfigError(f"{name} is not valid JSON ({error}): send an object such as {{}}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is a {type(value).__name__}, it must be an object such as {{}}")
    return value


def _now() -> datetime:
    return datetime.now(timezone.utc)


def main() -> int:
    """Entry point of the node's process."""
    return run_node(RecorderNode)


if __name__ == "__main__":
    raise SystemExit(main())
