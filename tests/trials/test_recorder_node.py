"""The recorder as a process of its own: what others publish arrives in a checked bag, whatever ends the recorder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from vlatools_interfaces.msg import ArmState, InvocationRecord, TrialEvent
from vlatools_interfaces.srv import StartRecording, StopRecording

from vlatools.config import config_root
from vlatools.nodes.images import image_to_msg
from vlatools.trials.bag_info import bag_info
from vlatools.trials.bag_read import BagReader
from vlatools.trials.record import DIED, INTERRUPTED, find_trials, load_trial

pytestmark = pytest.mark.graph
DOMAIN = str(60 + os.getpid() % 40)


class Lab:
    """A recorder in a process, and a publisher of what a graph publishes."""

    def __init__(self, root, *options):
        environment = os.environ | {"ROS_DOMAIN_ID": DOMAIN, "FASTDDS_DEFAULT_PROFILES_FILE": str(config_root() / "fastdds.xml")}
        parameters = [f"root:={root}", "min_free_mb:=0", "linger_s:=0.3", *options]
        command = [sys.executable, "-m", "vlatools.nodes.recorder", "--ros-args"]
        for parameter in parameters:
            command += ["-p", parameter]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=int(DOMAIN), signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node("lab", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.joints = self.node.create_publisher(JointState, "/joint_states", qos_profile_sensor_data)
        self.state = self.node.create_publisher(ArmState, "/arm/state", 10)
        self.log = self.node.create_publisher(InvocationRecord, "/tools/log", 50)
        self.manifest = self.node.create_publisher(String, "/tools/manifest", latched)
        self.color = self.node.create_publisher(Image, "/camera/color/image_raw", 4)
        self.depth = self.node.create_publisher(Image, "/camera/aligned_depth_to_color/image_raw", 4)
        self.start_client = self.node.create_client(StartRecording, "/recorder/start")
        self.stop_client = self.node.create_client(StopRecording, "/recorder/stop")
        self.events = []
        self.node.create_subscription(TrialEvent, "/trial/events", self.events.append, latched)
        self.manifest.publish(String(data="said once"))
        assert self.start_client.wait_for_service(20.0)
        self.spin(1.0)

    def spin(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.02)

    def call(self, client, request):
        future = client.call_async(request)
        end = time.monotonic() + 30
        while not future.done() and time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.05)
        assert future.done()
        return future.result()

    def start(self, **fields):
        return self.call(self.start_client, StartRecording.Request(task="simple", seed=3, instruction="do it", **fields))

    def stop(self, **fields):
        return self.call(self.stop_client, StopRecording.Request(outcome="COMPLETED", message="done", **fields))

    def publish(self, seconds, images=True, noise=False):
        """50 Hz of states and 10 Hz of images; returns how many of each were sent."""
        color = np.tile(np.arange(640, dtype=np.uint8)[None, :, None], (480, 1, 3))
        depth = np.full((480, 640), 700, np.uint16)
        if noise:
            color = np.random.default_rng(0).integers(0, 255, (480, 640, 3), dtype=np.uint8)
        states = pictures = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.joints.publish(JointState(name=["a"], position=[float(states)]))
            self.state.publish(ArmState(mode=1))
            if images and states % 5 == 0:
                stamp = self.node.get_clock().now().to_msg()
                self.color.publish(image_to_msg(color, "rgb8", stamp, "camera_color_optical_frame"))
                self.depth.publish(image_to_msg(depth, "16UC1", stamp, "camera_color_optical_frame"))
                pictures += 1
            states += 1
            self.spin(0.02)
        return states, pictures

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)


@pytest.fixture
def lab(tmp_path, request):
    made = Lab(tmp_path / "trials", *getattr(request, "param", ()))
    yield made
    made.close()


def test_a_trial_from_start_to_stop(lab, tmp_path):
    lab.publish(0.3, images=False)
    started = lab.start(metadata_json='{"speed": 0.5}')
    assert started.success, started.message
    folder = Path(started.folder)
    assert load_trial(folder).status == "running"
    lab.publish(0.5)
    lab.log.publish(InvocationRecord(event=0, invocation_id="i1", family="reach", instruction="reach the red cube"))
    states, _ = lab.publish(2.5)
    lab.log.publish(InvocationRecord(event=1, invocation_id="i1", family="reach", outcome="COMPLETED", duration=2.5))
    verdict = {"verified_by": "sim_truth", "value": True, "claimed": True, "message": "judged", "stages": []}
    stopped = lab.stop(result_json=json.dumps({"claimed": True, "verdicts": [verdict], "invocations": []}))
    assert stopped.success, stopped.message
    trial = load_trial(folder)
    assert trial.status == "finished" and trial.success is True and trial.metadata == {"speed": 0.5}
    (row,) = trial.invocations  # the caller gave none, so they come from the bag
    assert row["family"] == "reach" and row["outcome"] == "COMPLETED" and row["duration"] == 2.5
    assert trial.provenance["calibration"]["hash"] and trial.recording["ok"]
    info = {topic.name: topic for topic in bag_info(folder).topics}
    assert stopped.messages == sum(topic.count for topic in info.values())
    # Best-effort states on one host: all of those that were sent, but for the moment of the start.
    assert info["/joint_states"].count >= states and info["/arm/state"].count >= states
    assert info["/tools/log"].count == 2 and info["/tools/manifest"].count == 1 and info["/trial/events"].count == 2
    color = info["/camera/color/image_raw/compressed"]
    # At most 5 Hz; how many a slow machine manages is not said here.
    assert color.count >= 3 and color.rate_hz <= 5.5 and info["/camera/aligned_depth_to_color/image_raw/compressedDepth"].count >= 3
    assert (folder / "report.html").is_file()
    check_pictures(folder)
    assert [event.event for event in lab.events] == [TrialEvent.STARTED, TrialEvent.FINISHED]


def check_pictures(folder):
    import cv2

    for message in BagReader(folder).messages():
        if message.topic.endswith("/compressedDepth"):
            data = np.frombuffer(bytes(message.decode().data)[12:], np.uint8)
            assert (cv2.imdecode(data, cv2.IMREAD_UNCHANGED) == 700).all()
        elif message.topic.endswith("/compressed"):
            image = cv2.imdecode(np.frombuffer(bytes(message.decode().data), np.uint8), cv2.IMREAD_COLOR)
            assert image.shape == (480, 640, 3) and abs(int(image[100, 100, 0]) - 100) < 6


def test_misuse_gets_a_clear_answer(lab, tmp_path):
    assert "begin one" in lab.stop().message
    assert "metadata_json" in lab.start(metadata_json="[1]").message
    assert "trial_id" in lab.start(trial_id="../../x").message
    first = lab.start(trial_id="first")
    second = lab.start(trial_id="second")  # whoever begins anew ends the one before
    assert first.success and second.success
    assert load_trial(Path(first.folder)).status == INTERRUPTED
    assert lab.stop(result_json="nonsense").success
    assert load_trial(Path(second.folder)).result == {"result_json": "nonsense"}


def test_sigterm_ends_the_trial(lab, tmp_path):
    folder = Path(lab.start().folder)
    lab.publish(1.0)
    lab.process.send_signal(signal.SIGTERM)
    assert lab.process.wait(15) == 0
    assert "Traceback" not in lab.process.stderr.read()
    trial = load_trial(folder)
    assert trial.status == INTERRUPTED and trial.recording["ok"] and trial.recording["messages"] > 50
    assert bag_info(folder).closed


def test_sigkill_leaves_a_readable_bag(lab, tmp_path):
    folder = Path(lab.start().folder)
    lab.publish(2.0)
    lab.process.kill()
    lab.process.wait()
    (trial,) = find_trials(tmp_path / "trials")
    info = {topic.name: topic for topic in bag_info(folder).topics}
    assert trial.status == DIED and info["/joint_states"].count > 40


def test_full_disk_ends_recording_only(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    lab = None
    try:
        lab = Lab(disk)
        folder = Path(lab.start().folder)
        lab.publish(3.0, noise=True)
        stopped = lab.stop()
        assert not stopped.success and "recording ended" in stopped.message and "No space left" in stopped.message
        assert lab.process.poll() is None  # the node lives on
        assert bag_info(folder).messages == stopped.messages > 10
    finally:
        if lab is not None:
            lab.close()
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("option", ["image_hz:=0.0", "flush_s:=5.0", "expected_hz:=['/joint_states fast']", "calibration:=nowhere.yaml"])
def test_bad_parameters_are_refused_in_one_line(tmp_path, option):
    command = [sys.executable, "-m", "vlatools.nodes.recorder", "--ros-args", "-p", f"root:={tmp_path}", "-p", option]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | {"ROS_DOMAIN_ID": DOMAIN})
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert option.split(":=")[0] in done.stderr or "nowhere.yaml" in done.stderr
