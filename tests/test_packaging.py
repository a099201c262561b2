"""What a fresh clone and the lab's colcon build rely on."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import vlatools
from vlatools.nodes.table import TABLE, Arguments

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def requirements(name: str) -> list[Requirement]:
    lines = (line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def pins(python: str) -> dict[str, str]:
    """Package -> pinned version on one Python; fails on a package pinned twice or loosely."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.5",
        "sys_platform": "linux",
        "platform_python_implementation": "CPython",
    }
    found: dict[str, str] = {}
    for requirement in requirements("requirements.lock"):
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        (specifier,) = requirement.specifier
        assert specifier.operator == "==" and "*" not in specifier.version, f"{requirement} is no exact pin"
        name = canonicalize_name(requirement.name)
        assert name not in found, f"{name} is pinned twice on Python {python}"
        found[name] = specifier.version
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_covers_every_direct_requirement(python: str) -> None:
    pinned = pins(python)
    for requirement in requirements("requirements.in"):
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} is in requirements.in and not in requirements.lock: make lock"
        assert requirement.specifier.contains(pinned[name]), f"{name}=={pinned[name]} does not fit {requirement}: make lock"


def test_installed_packages_are_the_pinned_ones() -> None:
    from importlib.metadata import version

    pinned = pins(f"{sys.version_info[0]}.{sys.version_info[1]}")
    wrong = {name: (version(name), pin) for name, pin in pinned.items() if version(name) != pin}
    assert not wrong, f"installed and pinned versions differ: {wrong}; make setup"


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_dependencies_of_the_project_are_direct_requirements() -> None:
    direct = {canonicalize_name(r.name): r.specifier for r in requirements("requirements.in")}
    for line in project()["dependencies"]:
        requirement = Requirement(line)
        assert canonicalize_name(requirement.name) in direct, f"{requirement.name} is not in requirements.in"


def test_versions_agree() -> None:
    image = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]["robot"]["image"]
    versions = {
        "pyproject.toml": project()["version"],
        "package.xml": ET.parse(ROOT / "package.xml").findtext("version"),
        "vlatools_interfaces/package.xml": ET.parse(ROOT / "ros2_ws/src/vlatools_interfaces/package.xml").findtext("version"),
        "vlatools.__version__": vlatools.__version__,
        "docker/compose.yaml": image.rpartition(":")[2],
    }
    assert len(set(versions.values())) == 1, versions


def installed_files() -> dict[str, list[str]]:
    spec = importlib.util.spec_from_file_location("vlatools_setup", ROOT / "setup.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.data_files())


def test_ros_package_installs_its_files() -> None:
    files = installed_files()
    for target, sources in files.items():
        assert sources, f"{target} would be empty"
        for source in sources:
            assert (ROOT / source).is_file(), f"{source} (for {target}) does not exist"
    assert "resource/vlatools" in files["share/ament_index/resource_index/packages"]
    assert "config/fastdds.xml" in files["share/vlatools/config"]
    assert not [source for sources in files.values() for source in sources if "__pycache__" in source]


def test_every_process_of_the_table_is_a_ros_executable() -> None:
    executables = {Path(source) for source in installed_files()["lib/vlatools"]}
    assert {path.name for path in executables} == {spec.executable for spec in TABLE} | {"vlatools"}
    for path in executables:
        assert os.access(ROOT / path, os.X_OK)
        assert (ROOT / path).resolve() == ROOT / "scripts/ros/run"


def test_colcon_finds_exactly_the_two_packages() -> None:
    colcon = Path(sys.executable).with_name("colcon")
    command = [colcon, "--log-base", os.devnull, "list"]
    out = subprocess.run(command, cwd=ROOT / "ros2_ws", capture_output=True, text=True, timeout=60, check=True)
    found = {tuple(line.split("\t")) for line in out.stdout.splitlines()}
    assert found == {
        ("vlatools", "src/vlatools", "(ros.ament_python)"),
        ("vlatools_interfaces", "src/vlatools_interfaces", "(ros.ament_cmake)"),
    }


def test_colcon_can_read_the_metadata() -> None:
    """colcon evaluates what setuptools knows of a package as a literal; objects in it (requires-python) break its build."""
    from colcon_python_setup_py.package_identification.python_setup_py import get_setup_information

    information = get_setup_information(ROOT / "setup.py")
    assert information["metadata"]["name"] == "vlatools"


def test_interfaces_import_without_any_environment() -> None:
    code = "from vlatools_interfaces.action import InvokeTool; InvokeTool.__import_type_support__()"
    subprocess.run([sys.executable, "-c", code], env={}, cwd="/", check=True, timeout=60)


def test_every_interface_file_is_built() -> None:
    source = ROOT / "ros2_ws/src/vlatools_interfaces"
    for kind in ("msg", "srv", "action"):
        module = importlib.import_module(f"vlatools_interfaces.{kind}")
        for file in (source / kind).glob(f"*.{kind}"):
            assert hasattr(module, file.stem), f"{file.name} is not built: make setup"


def test_compose_file_starts_the_launch_file_with_known_arguments() -> None:
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    known = {field.name for field in dataclasses.fields(Arguments)}
    for name, service in services.items():
        assert service["network_mode"] == "host" and service["ipc"] == "host", name
        assert service["command"][:4] == ["ros2", "launch", "vlatools", "franka.launch.py"]
        for argument in service["command"][4:]:
            assert argument.partition(":=")[0] in known, f"service {name} passes an unknown {argument}"
    assert services["robot"]["ulimits"]["rtprio"] == 99
    assert services["robot"]["ulimits"]["memlock"] == -1


def test_dds_profile_has_room_for_images() -> None:
    space = {"d": "http://www.eprosima.com"}
    profile = ET.parse(ROOT / "config/fastdds.xml")
    transports = {t.findtext("d:transport_id", namespaces=space): t for t in profile.iterfind(".//d:transport_descriptor", space)}
    used = [e.text for e in profile.iterfind(".//d:userTransports/d:transport_id", space)]
    assert sorted(used) == sorted(transports)
    by_type = {t.findtext("d:type", namespaces=space): t for t in transports.values()}
    assert set(by_type) == {"SHM", "UDPv4"}
    point_map = 480 * 640 * 3 * 4
    assert int(by_type["SHM"].findtext("d:maxMessageSize", namespaces=space)) >= 2 * point_map
    assert int(by_type["SHM"].findtext("d:segment_size", namespaces=space)) >= 4 * point_map


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder that looks like a clone to the set-up script, as far as it looks before it installs anything."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup.sh", tmp_path / "scripts")
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    shutil.copytree(ROOT / "ros2_ws/src/vlatools_interfaces", tmp_path / "ros2_ws/src/vlatools_interfaces")
    return tmp_path


def set_up(clone: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "scripts/setup.sh"], cwd=clone, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


def test_set_up_refuses_an_unfit_interpreter(clone: Path) -> None:
    python = clone / "python2"
    python.write_text("#!/bin/sh\necho 2.7.18\n")
    python.chmod(0o755)
    result = set_up(clone, VLATOOLS_PYTHON=str(python))
    assert result.returncode == 1
    assert re.search(r"VLATOOLS_PYTHON=\S+ is Python '2\.7\.18'; Python 3\.10 to 3\.13 is needed", result.stderr)


def test_set_up_names_an_interpreter_that_does_not_exist(clone: Path) -> None:
    result = set_up(clone, VLATOOLS_PYTHON="/nowhere/python3")
    assert result.returncode == 1
    assert "VLATOOLS_PYTHON=/nowhere/python3 is not a command" in result.stderr


def test_set_up_leaves_a_foreign_environment_alone(clone: Path) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv/mine").touch()
    result = set_up(clone)
    assert result.returncode == 1
    assert f"{clone}/.venv exists and was not made by this script" in result.stderr
    assert (clone / ".venv/mine").exists()
