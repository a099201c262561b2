"""The table of processes, the parameter file and rviz's topics agree with the nodes."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from vlatools.core import ConfigError
from vlatools.nodes.table import TABLE, Arguments, active, command_line, environment, parameter_file

ROOT = Path(__file__).resolve().parents[1]
NODES = [spec for spec in TABLE if spec.ros]


def params_of(module: str) -> type[Any]:
    found = importlib.import_module(module)
    (cls,) = [
        v for k, v in vars(found).items() if isinstance(v, type) and k.endswith("Params") and v.__module__ == module
    ]
    return cls


@pytest.mark.parametrize("spec", NODES, ids=lambda s: s.name)
def test_parameter_file_and_declarations_agree_both_ways(spec: Any) -> None:
    data = yaml.safe_load(parameter_file().read_text())
    in_file = data[spec.name]["ros__parameters"]
    declared = {f.name: f.default for f in dataclasses.fields(params_of(spec.module))}
    assert set(in_file) == set(declared)
    for name, value in in_file.items():
        kind = type(declared[name])
        assert isinstance(tuple(value) if isinstance(value, list) else value, kind), f"{spec.name}.{name} is {value!r}, declared {kind}"


def test_parameter_file_names_no_node_that_does_not_exist() -> None:
    assert set(yaml.safe_load(parameter_file().read_text())) == {spec.name for spec in NODES}


@pytest.mark.parametrize("spec", NODES, ids=lambda s: s.name)
@pytest.mark.parametrize("sim", [True, False])
def test_parameters_that_follow_from_arguments_are_declared(spec: Any, sim: bool) -> None:
    arguments = Arguments(sim=sim, robot_ip="127.0.0.9")
    declared = {f.name for f in dataclasses.fields(params_of(spec.module))}
    assert set(spec.parameters(arguments)) <= declared


def test_simulation_and_recorder_are_conditional() -> None:
    assert {s.name for s in active(Arguments())} == {s.name for s in NODES}
    assert "sim" in {s.name for s in active(Arguments(sim=True))}
    assert "recorder" not in {s.name for s in active(Arguments(record=False))}


def test_strings_stay_strings_on_the_command_line() -> None:
    camera = next(s for s in TABLE if s.name == "camera")
    line = command_line(camera, Arguments(camera_serial="012345678901"))
    assert 'serial:="012345678901"' in line


def test_arguments_from_launch_strings() -> None:
    parsed = Arguments.parse({"sim": "true", "seed": "7", "speed": "0.5", "camera_serial": "0123"})
    assert (parsed.sim, parsed.seed, parsed.speed, parsed.camera_serial) == (True, 7, 0.5, "0123")
    with pytest.raises(ConfigError, match=r"robot_ipp.*known"):
        Arguments.parse({"robot_ipp": "1"})
    with pytest.raises(ConfigError, match="seed='x' must be of type int"):
        Arguments.parse({"seed": "x"})
    with pytest.raises(ConfigError, match="speed is 2"):
        Arguments.parse({"speed": "2"})


def test_every_argument_is_described() -> None:
    assert all(text for _, text in Arguments.descriptions().values())


def test_environment_names_the_transport_profile() -> None:
    assert Path(environment(Arguments())["FASTDDS_DEFAULT_PROFILES_FILE"]).is_file()


def test_only_a_simulation_gives_the_time() -> None:
    assert environment(Arguments())["VLATOOLS_CLOCK"] == ""
    assert environment(Arguments(sim=True, domain="d7"))["VLATOOLS_CLOCK"] == "d7"


def test_driver_process_imports_neither_camera_nor_torch_nor_simulation() -> None:
    code = (
        "import sys, vlatools.nodes.arm; bad = [m for m in ('pyrealsense2', 'torch', 'mujoco', 'cv2', 'vlatools.camera.realsense',"
        " 'vlatools.perception.locator', 'vlatools.sim') if m in sys.modules]; sys.exit(f'arm imports {bad}' if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nodes_never_spin_until_a_future_completes() -> None:
    for file in (ROOT / "src/vlatools").rglob("*.py"):
        names = {n.attr for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Attribute)}
        assert "spin_until_future_complete" not in names, f"{file}: it hangs inside a callback; await the future, or use a worker"


def test_launch_file_takes_everything_from_the_table() -> None:
    tree = ast.parse((ROOT / "launch/franka.launch.py").read_text())
    modules = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == "vlatools.nodes.table"]
    imported = {alias.name for module in modules for alias in module.names}
    assert {"Arguments", "active", "parameter_file", "environment"} <= imported


def test_launch_file_loads_with_launch_ros() -> None:
    pytest.importorskip("launch_ros", reason="launch is not on the registry: runs where ROS is installed")
    spec = importlib.util.spec_from_file_location("franka_launch", ROOT / "launch/franka.launch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    description = module.generate_launch_description()
    names = {a.name for a in description.get_launch_arguments()}
    assert names == set(Arguments.descriptions())


def test_robot_description_expands() -> None:
    xacro = pytest.importorskip("xacro")
    text = xacro.process_file(str(ROOT / "urdf/fr3_d435.urdf.xacro"), mappings={"robot": "false"}).toxml()
    for link in ("fr3_link0", "table", "camera_housing"):
        assert f'name="{link}"' in text
