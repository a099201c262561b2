"""A made-up but plausible trial as a real bag, for tests of the report: a failed grasp with a replan, a reflex, two cubes in two bowls."""

import json
import math
from pathlib import Path

import cv2
import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Point
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CameraInfo, CompressedImage
from vlatools_interfaces.msg import AgentEvent, ArmState, InvocationRecord, LedgerEntry, Plan, PlanStep, ToolProgress

from vlatools.core import MonotonicClock, Pose
from vlatools.trials.bag import BagLimits, BagWriter
from vlatools.trials.bag_metadata import BagTopic, TopicQos
from vlatools.trials.schemas import schema

EPOCH_NS = 1_770_000_000_000_000_000
K = (610.0, 610.0, 320.0, 240.0)
EYE, LOOK = np.array([1.10, 0.0, 0.70]), np.array([0.50, 0.0, 0.02])
COLORS = {"red": (200, 40, 40), "yellow": (225, 180, 30), "blue": (40, 80, 200), "left": (225, 225, 220), "right": (225, 225, 220)}


def camera_pose():
    """Pose of the optical frame in fr3_link0."""
    z = (LOOK - EYE) / np.linalg.norm(LOOK - EYE)
    x = np.cross(z, [0, 0, 1.0])
    x /= np.linalg.norm(x)
    m = np.eye(4)
    m[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    m[:3, 3] = EYE
    return Pose.from_matrix(m)


def project(points):
    local = (np.asarray(points, dtype=float).reshape(-1, 3) - EYE) @ camera_pose().rotation
    return np.stack([K[0] * local[:, 0] / local[:, 2] + K[2], K[1] * local[:, 1] / local[:, 2] + K[3]], axis=1)


def above(point, height):
    return np.add(point, (0.0, 0.0, height))


def render(objects, tool):
    """A plain picture of the table, uint8 BGR (480, 640, 3)."""
    image = np.full((480, 640, 3), 18, np.uint8)
    table = project([[0.2, -0.45, 0], [0.85, -0.45, 0], [0.85, 0.45, 0], [0.2, 0.45, 0]])
    cv2.fillPoly(image, [table.astype(np.int32)], (208, 210, 212), cv2.LINE_AA)
    for name, (x, y, z) in sorted(objects.items(), key=lambda item: item[1][0]):
        rgb = COLORS[name.split()[0]]
        if "bowl" in name:
            angle = np.linspace(0, 2 * math.pi, 40)
            for radius, height, shade in ((0.066, 0.045, 0.86), (0.060, 0.045, 0.7), (0.045, 0.004, 0.8)):
                ring = np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle), 0 * angle + height], axis=1)
                cv2.fillPoly(image, [project(ring).astype(np.int32)], [int(shade * c) for c in rgb[::-1]], cv2.LINE_AA)
            continue
        corners = np.array([[x + a * 0.02, y + b * 0.02, z + c * 0.02] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
        for face, shade in (((0, 4, 6, 2), 0.5), ((4, 5, 7, 6), 0.75), ((1, 5, 7, 3), 1.0)):
            cv2.fillPoly(image, [project(corners[list(face)]).astype(np.int32)], [int(shade * c) for c in rgb[::-1]], cv2.LINE_AA)
    hand = project([tool, above(tool, 0.1), above(tool, 0.5) - (0.25, 0, 0)]).astype(np.int32)
    cv2.polylines(image, [hand], False, (70, 70, 74), 22, cv2.LINE_AA)
    cv2.polylines(image, [hand], False, (228, 228, 230), 16, cv2.LINE_AA)
    rng = np.random.default_rng(1)
    return np.clip(image + rng.normal(0, 3, image.shape), 0, 255).astype(np.uint8)


class Story:
    """Writes messages while its clock goes on."""

    def __init__(self, folder: Path, images=True):
        self.writer = BagWriter(folder, MonotonicClock(), BagLimits(min_free_bytes=0))
        self.images = images
        self.t = 0.0
        self.tool = np.array([0.42, 0.0, 0.42])
        self.width = 0.08
        self.holding = ""
        self.mode, self.errors = ArmState.IDLE, []
        self.objects = {
            "red cube": (0.45, 0.10, 0.02),
            "yellow cube": (0.44, -0.09, 0.02),
            "left bowl": (0.62, 0.13, 0.0225),
            "right bowl": (0.61, -0.12, 0.0225),
        }
        self.steps, self.generation, self.next_image, self.rows = [], 0, 0.0, []
        self.rng = np.random.default_rng(4)
        types = {
            "/tools/log": InvocationRecord,
            "/primitives/log": InvocationRecord,
            "/tools/progress": ToolProgress,
            "/planner/plan": Plan,
            "/planner/events": AgentEvent,
            "/planner/ledger": LedgerEntry,
            "/arm/state": ArmState,
            "/diagnostics": DiagnosticArray,
            "/camera/color/camera_info": CameraInfo,
            "/camera/color/image_raw/compressed": CompressedImage,
        }
        for name, kind in types.items():
            latched = name in ("/planner/plan", "/camera/color/camera_info")
            full = f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}"
            self.writer.add_topic(BagTopic(name, schema(full), TopicQos(latched=latched), bulky="image" in name))
        k = [K[0], 0.0, K[2], 0.0, K[1], K[3], 0.0, 0.0, 1.0]
        self.put("/camera/color/camera_info", CameraInfo(width=640, height=480, k=k))

    def put(self, topic, message):
        assert self.writer.put(topic, EPOCH_NS + round(self.t * 1e9), serialize_message(message))

    def event(self, kind, message, **data):
        self.put("/planner/events", AgentEvent(task_id="t1", kind=kind, message=message, data_json=json.dumps(data)))

    def observe(self):
        self.event("observed", "seen: " + ", ".join(self.objects), objects=self.objects)

    def plan(self, steps, current=0):
        self.steps = steps
        message = Plan(task_id="t1", instruction="put it", generation=self.generation, current=current)
        message.steps = [PlanStep(family=f, instruction=i, position=Point(x=math.nan, y=math.nan, z=math.nan)) for f, i in steps]
        self.put("/planner/plan", message)

    def tick(self):
        """20 ms of the world."""
        self.t += 0.02
        m = ArmState(mode=self.mode, ready=not self.errors, errors=self.errors, gripper_width=float(self.width))
        p = m.ee_pose.position
        p.x, p.y, p.z = (float(v) for v in self.tool)
        m.gripper_holding = bool(self.holding)
        m.wrench.force.z = float(-abs(self.rng.normal(0.6, 0.4)) - (4 if self.holding else 0))
        self.put("/arm/state", m)
        if self.holding:
            offset = 0.0225 if "bowl" in self.holding else 0.0
            self.objects[self.holding] = tuple(float(v) for v in above(self.tool, -offset))
        if self.images and self.t >= self.next_image:
            self.next_image = self.t + 0.25
            data = cv2.imencode(".jpg", render(self.objects, self.tool), [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
            self.put("/camera/color/image_raw/compressed", CompressedImage(format="rgb8; jpeg compressed bgr8", data=data))

    def call(self, family, instruction, to, seconds, position=None, width=None, take="", drop=False, stall=False, clips=0):
        name = f"inv{len(self.rows):02d}"
        arguments = {"object": instruction.split("the ")[1].split(" above")[0].split(" into")[0], "completion_threshold": 0.9}
        if position is not None:
            arguments["position"] = list(position)
        start, begin, width0 = self.t, self.tool.copy(), self.width
        fields = {"invocation_id": name, "family": family, "instruction": instruction}
        record = InvocationRecord(event=0, arguments_json=json.dumps(arguments), **fields)
        self.put("/tools/log", record)
        self.mode = ArmState.STREAMING
        smoothed, n = 0.0, round(seconds / 0.02)
        for i in range(1, n + 1):
            s = i / n
            ease = s * s * (3 - 2 * s)
            lift = 0.09 * math.sin(math.pi * s) if family == "move" else 0.0
            self.tool = above(begin + ease * (np.asarray(to) - begin), lift)
            if width is not None:
                self.width = width0 + (width - width0) * min(1.0, 2 * s)
            self.tick()
            if i % 5 == 0:
                p = (0.42 * (1 - math.exp(-6 * s)) if stall else min(1.0, 1.06 * ease)) + self.rng.normal(0, 0.012)
                smoothed += 0.4 * (p - smoothed)
                end = i == n or i + 5 > n
                verdict = (2 if stall else 1) if end else 0
                shown = max(smoothed, 0.93) if end and not stall else smoothed
                sample = ToolProgress(invocation_id=name, family=family, instruction=instruction)
                sample.progress, sample.smoothed = float(p), float(shown)
                sample.verdict, sample.phase = verdict, "approach" if s < 0.6 else "settle"
                sample.observation_age = 0.08 + 0.02 * float(self.rng.random())
                self.put("/tools/progress", sample)
        self.mode = ArmState.IDLE
        if take:
            self.holding = take
        if drop:
            thing, self.holding = self.holding, ""
            if "cube" in thing:
                x, y, _ = self.objects[thing]
                self.objects[thing] = (x, y, 0.026)
        record = InvocationRecord(event=1, arguments_json=json.dumps(arguments), **fields)
        record.outcome = "STAGNATED" if stall else "COMPLETED"
        record.reason, record.message = ("no_gain", "progress gained 0.00 in 3.0 s, the limit is 0.02") if stall else ("", "")
        record.progress, record.duration, record.chunks, record.clips = 0.42 if stall else 0.95, self.t - start, 6, clips
        self.put("/tools/log", record)
        row = {"family": family, "instruction": instruction, "outcome": record.outcome, "reason": record.reason}
        row |= {"progress": float(record.progress), "duration": float(record.duration), "chunks": 6, "clips": clips}
        self.rows.append(row)

    def call_retreat(self):
        record = InvocationRecord(event=0, invocation_id=f"p{self.t:.2f}", family="retreat", instruction="")
        self.put("/primitives/log", record)
        begin = self.tool.copy()
        self.width = 0.08
        for i in range(40):
            self.tool = above(begin, 0.12 * (i + 1) / 40)
            self.tick()
        record.event, record.outcome, record.duration = 1, "COMPLETED", 0.8
        self.put("/primitives/log", record)

    def wait(self, seconds):
        for _ in range(round(seconds / 0.02)):
            self.tick()


GOAL = [
    ("reach", "reach the {c}"),
    ("grasp", "grasp the {c}"),
    ("move", "move the {c} above the {b}"),
    ("release", "release the {c} into the {b}"),
]


def goal(cube, bowl):
    return [(f, i.format(c=cube, b=bowl)) for f, i in GOAL]


def pick_and_place(s, cube, bowl, slip=False):
    at, into = np.array(s.objects[cube]), np.array(s.objects[bowl])
    s.call("reach", f"reach the {cube}", at, 2.2, position=at, clips=2)
    if slip:
        s.call("grasp", f"grasp the {cube}", at, 4.0, width=0.0, stall=True)
        s.objects[cube] = (at[0] + 0.03, at[1] + 0.02, 0.02)
        s.event("error", f"grasp the {cube}: STAGNATED: progress gained 0.00 in 3.0 s", trigger="outcome")
        s.call_retreat()
        s.observe()
        s.generation += 1
        rest = goal("red cube", "left bowl") + goal("yellow cube", "right bowl")
        s.event("replanned", f"after outcome: {len(rest)} invocations left", generation=s.generation)
        s.plan(rest)
        pick_and_place(s, cube, bowl)
        return
    s.call("grasp", f"grasp the {cube}", at, 1.1, width=0.04, take=cube)
    s.call("move", f"move the {cube} above the {bowl}", above(into, 0.06), 2.6, position=into)
    s.call("release", f"release the {cube} into the {bowl}", above(into, 0.06), 0.9, width=0.08, drop=True)
    s.event("effect_checked", f"the {cube} is in the {bowl}: true (4 mm apart, the limit is 40 mm)", truth="true")
    s.observe()


def write_story(folder: Path, images=True):
    """Write the bag; returns (BagCheck, invocation rows, seconds)."""
    s = Story(folder, images)
    s.wait(0.3)
    s.observe()
    s.event("model_call", "plan_library answered after 0.01 s")
    s.put("/planner/ledger", LedgerEntry(task_id="t1", model="plan_library", latency=0.01))
    s.event("planned", "8 invocations: put the red cube into the left bowl; put the yellow cube into the right bowl", generation=0)
    s.plan(goal("red cube", "left bowl") + goal("yellow cube", "right bowl"))
    pick_and_place(s, "red cube", "left bowl", slip=True)
    s.mode, s.errors = ArmState.REFLEX, ["cartesian_reflex"]
    s.wait(0.4)
    s.mode, s.errors = ArmState.IDLE, []
    slow = DiagnosticStatus(level=bytes([1]), name="camera", message="color rate 11.8 Hz, expected 15 Hz")
    s.put("/diagnostics", DiagnosticArray(status=[slow]))
    pick_and_place(s, "yellow cube", "right bowl")
    s.event("finished", "every effect is confirmed", outcome="COMPLETED")
    s.wait(0.6)
    return s.writer.close(), s.rows, s.t
