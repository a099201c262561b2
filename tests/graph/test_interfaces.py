"""The running graph offers what DESIGN and rviz ask for, with the declared parameters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.action import get_action_names_and_types

from vlatools.config import find_config
from vlatools.core import Family
from vlatools.nodes.calls import call_service
from vlatools.nodes.primitive_goals import PRIMITIVES
from vlatools.nodes.table import TABLE, parameter_file

NODES = [spec.name for spec in TABLE if spec.ros]
OF_ROS = {"use_sim_time", "start_type_description_service"}
FROM_ROS_INSTALLATION = {"/robot_description"}  # robot_state_publisher, started by the launch file
SERVICES = ("/arm/stop", "/arm/clear_stop", "/arm/recover", "/tools/get_manifest", "/recorder/start", "/recorder/stop")
TOPICS = {
    *("/joint_states", "/arm/state", "/arm/ee_pose", "/arm/wrench", "/arm/action_chunk", "/primitives/log"),
    *("/camera/color/image_raw", "/camera/color/camera_info"),
    *("/camera/aligned_depth_to_color/image_raw", "/camera/aligned_depth_to_color/camera_info"),
    *("/tools/progress", "/tools/manifest", "/tools/log", "/planner/plan", "/planner/events", "/planner/ledger"),
    *("/diagnostics", "/vlatools/markers"),
}
RVIZ_TYPES = {
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "Image": "sensor_msgs/msg/Image",
    "Pose": "geometry_msgs/msg/PoseStamped",
    "Wrench": "geometry_msgs/msg/WrenchStamped",
}


def test_nodes_topics_services_and_actions(lab: Any) -> None:
    node = lab.client.node
    assert set(NODES) <= set(node.get_node_names())
    assert {name for name, _ in node.get_topic_names_and_types()} >= TOPICS
    assert set(SERVICES) <= {name for name, _ in node.get_service_names_and_types()}
    wanted = {f"/primitives/{p.name}" for p in PRIMITIVES} | {f"/tools/{f.value}" for f in Family}
    wanted |= {"/run_task", "/camera/capture", "/perception/segment", "/perception/locate"}
    assert wanted <= {name for name, _ in get_action_names_and_types(node)}


@pytest.mark.parametrize("name", NODES)
def test_parameters_on_the_live_node_and_in_the_file_are_the_same(lab: Any, name: str) -> None:
    in_file = yaml.safe_load(parameter_file().read_text())[name]["ros__parameters"]
    lister = lab.client.node.create_client(ListParameters, f"/{name}/list_parameters")
    declared = {n for n in call_service(lister, ListParameters.Request(), 20.0).result.names if not n.startswith("qos_overrides")}
    assert declared - OF_ROS == set(in_file)
    getter = lab.client.node.create_client(GetParameters, f"/{name}/get_parameters")
    values = call_service(getter, GetParameters.Request(names=list(in_file)), 20.0).values
    from rclpy.parameter import parameter_value_to_python

    live = dict(zip(in_file, map(parameter_value_to_python, values), strict=True))
    follows = next(s for s in TABLE if s.name == name).parameters(lab.graph.arguments)
    assert live == {**in_file, **follows}


def test_every_topic_of_rviz_is_in_the_graph_with_its_type(lab: Any) -> None:
    live = dict(lab.client.node.get_topic_names_and_types())
    shown = 0
    for display in yaml.safe_load(find_config("vlatools.rviz").read_text())["Visualization Manager"]["Displays"]:
        kind = display["Class"].rsplit("/", 1)[-1]
        named = [v["Value"] for k, v in display.items() if k.endswith("Topic") and isinstance(v, dict) and "Value" in v]
        named += [v for k, v in display.items() if k.endswith("Topic") and isinstance(v, str) and v.startswith("/")]
        for topic in named:
            if topic not in FROM_ROS_INSTALLATION:
                shown += 1
                assert topic in live, f"rviz shows {topic}, which nobody publishes"
                assert RVIZ_TYPES.get(kind, live[topic][0]) in live[topic]
    assert shown >= 5


def test_every_frame_published_arrives_in_another_process(lab: Any) -> None:
    child = Path(__file__).parents[2] / "benchmarks" / "image_counter.py"
    done = subprocess.run([sys.executable, str(child), "6"], env=lab.graph.env, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    begin = max(seen[name][0] for name in ("color", "depth", "announced"))
    end = min(seen[name][-1] for name in ("color", "depth", "announced"))
    announced = {s for s in seen["announced"] if begin <= s <= end}
    assert len(announced) >= 20, "the camera is too slow to say anything"
    for name in ("color", "depth"):
        assert {s for s in seen[name] if begin <= s <= end} == announced, f"{name} images were lost"


def test_the_driver_process_holds_neither_camera_nor_models(lab: Any) -> None:
    maps = Path(f"/proc/{lab.pids()['arm']}/maps").read_text()
    assert "franky" in maps
    for library in ("librealsense", "pyrealsense2", "libtorch", "libmujoco", "cv2"):
        assert library not in maps, f"the arm's process has loaded {library}"
