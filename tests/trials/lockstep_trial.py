"""A real trial in lock-step, recorded with the nodes' own messages: the report's data without the wall clock."""

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CameraInfo, CompressedImage
from vlatools_interfaces.msg import AgentEvent as AgentEventMsg
from vlatools_interfaces.msg import ArmState, InvocationRecord, LedgerEntry, Plan, ToolProgress

from vlatools.agent.config import AgentConfig
from vlatools.agent.events import AgentEvent
from vlatools.agent.events import LedgerEntry as Cost
from vlatools.agent.library import PlanLibrary
from vlatools.agent.runner import TaskRunner
from vlatools.commands.truth import truth_sample
from vlatools.config import config_root, find_config, load
from vlatools.core import MonotonicClock, Pose
from vlatools.nodes.convert import arm_state_to_msg, feedback_to_msg, invocation_record
from vlatools.nodes.images import camera_info, image_to_msg
from vlatools.nodes.planner_messages import event_message, ledger_message, plan_message
from vlatools.nodes.recorded_images import compress_color
from vlatools.sim.assembly import LockstepStack
from vlatools.trials.bag import BagLimits, BagWriter
from vlatools.trials.bag_metadata import BagTopic
from vlatools.trials.judge import StageTracker
from vlatools.trials.schemas import schema
from vlatools.trials.tasks import load_task

EPOCH_NS = 1_770_000_000_000_000_000
TOPICS = {
    "/tools/log": InvocationRecord,
    "/tools/progress": ToolProgress,
    "/planner/plan": Plan,
    "/planner/events": AgentEventMsg,
    "/planner/ledger": LedgerEntry,
    "/arm/state": ArmState,
    "/camera/color/camera_info": CameraInfo,
    "/camera/color/image_raw/compressed": CompressedImage,
}


class SimStamps:
    """Stamps of the simulation's clock."""

    def __init__(self, clock):
        self._clock = clock

    def now(self):
        return self.to_ros(self._clock.now())

    def to_ros(self, seconds):
        return Time(sec=int(seconds), nanosec=int(seconds % 1 * 1e9))


class RecordedTools:
    """The stack as the agent's tools, each call written down as the tools node does."""

    def __init__(self, stack, put, stamps, disturb):
        self.stack, self.put, self.stamps, self.disturb, self.count = stack, put, stamps, disturb, 0

    def invoke(self, invocation, cancel=None, on_feedback=None):
        monitor = self.stack.config.tools.monitor_of(invocation.family)
        arguments = {"object": invocation.object, "target": invocation.target, "position": invocation.position}
        arguments |= {"completion_threshold": monitor.completion_threshold, "plan_generation": invocation.plan_generation}
        self.put("/tools/log", invocation_record(invocation, arguments, None, self.stamps.now()))
        self.disturb(self.stack, self.count, invocation)
        self.count += 1

        def report(feedback):
            self.put("/tools/progress", feedback_to_msg(feedback, self.stamps))
            if on_feedback is not None:
                on_feedback(feedback)

        result = self.stack.invoke(invocation, cancel, report)
        self.put("/tools/log", invocation_record(invocation, arguments, result, self.stamps.now()))
        return result


def teleport_during_first_grasp(stack, count, invocation):
    """A hand takes the cube away when the first grasp begins."""
    if count == 1:
        here = stack.lab.truth().objects[invocation.object].pose
        stack.lab.teleport(invocation.object, Pose(here.position + np.array([-0.03, 0.05, 0.0]), here.quat_xyzw))


def run_trial(folder, task_name, seed, disturb=lambda *_: None, image_hz=4.0):
    """Run and record; returns (BagCheck, TaskResult, Verdict, calibration entry)."""
    task = load_task(config_root() / "tasks", task_name)
    writer = BagWriter(folder, MonotonicClock(), BagLimits(min_free_bytes=0))
    for name, kind in TOPICS.items():
        full = f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}"
        writer.add_topic(BagTopic(name, schema(full), bulky="image" in name))
    with LockstepStack(task.scene, seed=seed) as stack:
        stamps = SimStamps(stack.clock)

        def put(topic, message):
            assert writer.put(topic, EPOCH_NS + round(stack.clock.now() * 1e9), bytes(serialize_message(message)))

        def picture():
            frame = stack.camera.latest(1.0)
            image = image_to_msg(frame.color, "rgb8", stamps.to_ros(frame.stamp_s), "camera_color_optical_frame")
            stamp = EPOCH_NS + round(stack.clock.now() * 1e9)
            writer.put("/camera/color/image_raw/compressed", stamp, compress_color(bytes(serialize_message(image)), 88))

        def notice(news):
            if isinstance(news, AgentEvent):
                put("/planner/events", event_message(news, "t", stamps))
            elif isinstance(news, Cost):
                put("/planner/ledger", ledger_message(news, "t", stamps))
            else:
                put("/planner/plan", plan_message(news, "t", stamps))

        tracker = StageTracker(task.success, truth_sample(stack.lab.truth()))
        info = camera_info(stack.lab.intrinsics, stamps.now(), "camera_color_optical_frame")
        put("/camera/color/camera_info", info)
        stack.clock.every(0.04, lambda: put("/arm/state", arm_state_to_msg(stack.arm.state(), stamps)))
        stack.clock.every(0.1, lambda: tracker.feed(truth_sample(stack.lab.truth())))
        if image_hz:
            stack.clock.every(1.0 / image_hz, picture)
        config = load(AgentConfig, find_config("planner.yaml"))
        tools = RecordedTools(stack, put, stamps, disturb)
        runner = TaskRunner(PlanLibrary(config, stack.clock), tools, stack.observe, stack.arm, stack.clock, config, notice)
        result = runner.run(task.instruction, task.budget, None, None)
        stack.clock.sleep(1.5)
        verdict = tracker.verdict(result.claimed)
        pose = stack.lab.camera_to_base
    calibration = {"hash": "exact", "position": list(pose.position), "quat_xyzw": list(pose.quat_xyzw)}
    return writer.close(), result, verdict, calibration
