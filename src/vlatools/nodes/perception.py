"""Node ``perception``: /perception/locate and /perception/segment on the camera node's pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sensor_msgs.msg import RegionOfInterest
from std_msgs.msg import Header
from vlatools_interfaces.action import Locate, Segment

from vlatools.camera import calibration
from vlatools.camera.points import point_map
from vlatools.config import find_config, load
from vlatools.core import CancelToken, Rejected
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.convert import BASE_FRAME, detected_to_msg, point_to_msg
from vlatools.nodes.goals import GoalRunner
from vlatools.nodes.images import image_to_msg
from vlatools.nodes.looking import look
from vlatools.nodes.ros_camera import OPTICAL_FRAME, RosCamera
from vlatools.nodes.standstill import Standstill
from vlatools.perception.color_segmenter import ColorSegmenter
from vlatools.perception.config import PerceptionConfig
from vlatools.perception.locator import Locator
from vlatools.perception.ports import Segment as Region
from vlatools.perception.regions import known_points, window
from vlatools.shared_clock import lab_now

_MIN_SCORE = 0.2


@dataclass(frozen=True)
class PerceptionParams:
    """Parameters of the perception node."""

    config: str = field(default="perception.yaml", metadata={"help": "colours and sizes that perception knows"})
    calibration: str = field(default="calibration/sim_d435.yaml", metadata={"help": "camera calibration file"})


class PerceptionNode(VlatoolsNode):
    """Adapter from ROS to the locator and the segmenter."""

    NAME = "perception"
    PARAMS = PerceptionParams
    params: PerceptionParams

    def __init__(self) -> None:
        super().__init__()
        config = load(PerceptionConfig, find_config(self.params.config))
        self._camera_to_base = calibration.load(find_config(self.params.calibration)).camera_to_base
        self._segmenter = ColorSegmenter(config)
        self._locator = Locator(self._segmenter, config)
        self._camera = RosCamera(self)
        self._standstill = Standstill(self)
        GoalRunner[Any, Any, Any](self, Locate, "/perception/locate", self._locate)
        GoalRunner[Any, Any, Any](self, Segment, "/perception/segment", self._segment)

    def _locate(self, goal: Locate.Goal, cancel: CancelToken, feedback: Callable[[Any], None]) -> Locate.Result:
        def on_phase(phase: str, elapsed_s: float) -> None:
            feedback(Locate.Feedback(phase=phase, elapsed=elapsed_s))

        names = [name.strip() for name in goal.names]
        if "" in names:
            raise Rejected("bad_argument", "a name is empty: name the objects, or give no names for all of them")
        standstill = self._standstill if goal.wait_for_standstill else None
        seen = look(self._camera, standstill, goal.timeout, cancel, on_phase)
        result = Locate.Result(outcome=seen.outcome.value, message=seen.message)
        if seen.frame is None:
            return result
        on_phase("locating", lab_now() - seen.frame.stamp_s)
        scene = self._locator.locate(seen.frame, self._camera_to_base, names)
        result.header = Header(stamp=self.stamps.to_ros(scene.stamp_s), frame_id=BASE_FRAME)
        result.objects = [detected_to_msg(thing) for thing in scene.objects]
        result.missing = [name for name in names if scene.find(name) is None]
        found = ", ".join(thing.name for thing in scene.objects) or "nothing"
        result.message = f"seen: {found}" + (f"; not seen: {', '.join(result.missing)}" if result.missing else "")
        return result

    def _segment(self, goal: Segment.Goal, cancel: CancelToken, feedback: Callable[[Any], None]) -> Segment.Result:
        def on_phase(phase: str, elapsed_s: float) -> None:
            feedback(Segment.Feedback(phase=phase, elapsed=elapsed_s))

        if not goal.use_point and not goal.prompt.strip():
            raise Rejected("bad_argument", "neither a prompt nor a point is given: set prompt, or use_point with row and col")
        seen = look(self._camera, None, goal.timeout, cancel, on_phase)
        result = Segment.Result(outcome=seen.outcome.value, message=seen.message, position=point_to_msg(None))
        frame = seen.frame
        if frame is None:
            return result
        rows, cols = frame.depth.shape
        if goal.use_point and not (goal.row < rows and goal.col < cols):
            raise Rejected("bad_argument", f"pixel ({goal.row}, {goal.col}) is off the image of {rows} rows and {cols} columns")
        points = point_map(frame.depth, frame.intrinsics, self._camera_to_base)
        if goal.use_point:
            region = self._segmenter.segment_point(frame.color, points, goal.row, goal.col)
        else:
            regions = self._segmenter.segment(frame.color, points, goal.prompt)
            region = regions[0] if regions else None
        result.stamp = self.stamps.to_ros(frame.stamp_s)
        least = goal.min_score or _MIN_SCORE
        if region is None or region.score < least:
            what = "the pixel" if goal.use_point else repr(goal.prompt)
            result.message = f"no region for {what} with a score of at least {least:.2f}"
            return result
        return self._filled(result, region, points)

    @staticmethod
    def _filled(result: Segment.Result, region: Region, points: np.ndarray[Any, Any]) -> Segment.Result:
        box_rows, box_cols = window(region.mask)
        known = known_points(points, region.mask)
        result.found, result.score, result.message = True, float(region.score), region.label
        result.box = RegionOfInterest(
            x_offset=box_cols.start,
            y_offset=box_rows.start,
            width=box_cols.stop - box_cols.start,
            height=box_rows.stop - box_rows.start,
        )
        result.position = point_to_msg(np.median(known, axis=0).astype(float) if len(known) else None)
        result.mask = image_to_msg(region.mask.astype(np.uint8) * 255, "mono8", result.stamp, OPTICAL_FRAME)
        return result


def main() -> int:
    """Run the node."""
    return run_node(PerceptionNode)


if __name__ == "__main__":
    raise SystemExit(main())
