"""Node ``monitor``: rviz markers of the running task, and the freshness of every source on /diagnostics."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, JointState
from visualization_msgs.msg import MarkerArray
from vlatools_interfaces.msg import ActionChunk, ArmState, Plan, ToolProgress

from vlatools.core import ConfigError
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.markers import markers
from vlatools.shared_clock import lab_now

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_PROGRESS_SHOWN_S = 3.0


@dataclass(frozen=True)
class MonitorParams:
    """Parameters of the monitor node."""

    marker_rate: float = field(default=5.0, metadata={"help": "markers per second [Hz], 0.5 to 30"})
    diagnostics_rate: float = field(default=1.0, metadata={"help": "diagnostics per second [Hz], 0.1 to 10"})
    max_age: float = field(default=1.0, metadata={"help": "a source older than this is reported as stale [s]"})
    calibration: str = field(default="calibration/sim_d435.yaml", metadata={"help": "calibration in use, named in the diagnostics"})

    def __post_init__(self) -> None:
        for key, low, high in (("marker_rate", 0.5, 30.0), ("diagnostics_rate", 0.1, 10.0), ("max_age", 0.1, 60.0)):
            value = getattr(self, key)
            if not low <= value <= high:
                raise ConfigError(f"{key} is {value}, it must be {low:g} to {high:g}")


class MonitorNode(VlatoolsNode):
    """Watches; it commands nothing."""

    NAME = "monitor"
    PARAMS = MonitorParams
    params: MonitorParams

    def __init__(self) -> None:
        super().__init__()
        self._plan: Plan | None = None
        self._progress: ToolProgress | None = None
        self._chunk: ActionChunk | None = None
        self._arm: ArmState | None = None
        self._heard: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._markers = self.create_publisher(MarkerArray, "/vlatools/markers", 5)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._watch(ArmState, "/arm/state", "_arm", qos_profile_sensor_data)
        self._watch(JointState, "/joint_states", None, qos_profile_sensor_data)
        self._watch(CameraInfo, "/camera/color/camera_info", None, qos_profile_sensor_data)
        self._watch(Plan, "/planner/plan", "_plan", _LATCHED, periodic=False)
        self._watch(ToolProgress, "/tools/progress", "_progress", 20, periodic=False)
        self._watch(ActionChunk, "/arm/action_chunk", "_chunk", 20, periodic=False)
        self._last_report_s = lab_now()
        self.create_timer(1.0 / self.params.marker_rate, self._publish_markers)
        self.create_timer(1.0 / self.params.diagnostics_rate, self._publish_diagnostics)

    def _watch(self, kind: Any, topic: str, attribute: str | None, qos: Any, periodic: bool = True) -> None:
        if periodic:
            self._heard[topic], self._counts[topic] = -math.inf, 0

        def heard(message: Any) -> None:
            if periodic:
                self._heard[topic] = lab_now()
                self._counts[topic] += 1
            if attribute is not None:
                setattr(self, attribute, message)
            if attribute == "_progress":
                self._progress_s = lab_now()

        self.create_subscription(kind, topic, heard, qos)

    _progress_s = -math.inf

    def _publish_markers(self) -> None:
        if self._markers.get_subscription_count() == 0:
            return
        running = lab_now() - self._progress_s < _PROGRESS_SHOWN_S
        chunk = self._chunk if running else None
        self._markers.publish(markers(self.stamps.now(), self._plan, self._progress if running else None, chunk, self._arm))

    def _publish_diagnostics(self) -> None:
        now = lab_now()
        span, self._last_report_s = now - self._last_report_s, now
        statuses = []
        for topic, heard_s in self._heard.items():
            age, rate = now - heard_s, self._counts[topic] / max(span, 1e-3)
            self._counts[topic] = 0
            stale = age > self.params.max_age
            never = math.isinf(age)
            text = "nothing was ever heard" if never else f"silent for {age:.1f} s" if stale else f"{rate:.1f} Hz"
            level = DiagnosticStatus.STALE if stale else DiagnosticStatus.OK
            values = [KeyValue(key="rate_hz", value=f"{rate:.2f}"), KeyValue(key="age_s", value="inf" if never else f"{age:.3f}")]
            statuses.append(DiagnosticStatus(level=level, name=f"monitor: {topic}", message=text, hardware_id="", values=values))
        statuses.append(
            DiagnosticStatus(level=DiagnosticStatus.OK, name="monitor: calibration", message=self.params.calibration, hardware_id="")
        )
        array = DiagnosticArray(status=statuses)
        array.header.stamp = self.stamps.now()
        self._diagnostics.publish(array)


def main() -> int:
    """Entry point of the process."""
    return run_node(MonitorNode)


if __name__ == "__main__":
    raise SystemExit(main())
