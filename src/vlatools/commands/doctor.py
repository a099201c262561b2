"""``vlatools doctor``: what this machine has, what is missing, and how to mend it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rich.console import Console
from rich.table import Table

from vlatools.config import find_config, share_root
from vlatools.core import VlatoolsError
from vlatools.nodes.table import Arguments

_FCI_PORT = 1337
_CONNECT_S = 2.0
_MIN_DISK_GB = 5.0
_MIN_SHM_MB = 200.0
_LIBRARIES = {
    "franky": "franky-control",
    "mujoco": "mujoco",
    "pinocchio": "pin",
    "pyrealsense2": "pyrealsense2",
    "cv2": "opencv-python-headless",
    "ruckig": "ruckig",
    "rosbags": "rosbags",
    "mcap": "mcap",
}


class Level(str, Enum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One line of the table."""

    area: str
    level: Level
    found: str
    fix: str = ""


def doctor(console: Console, arguments: Arguments) -> int:
    """Run all checks and print them. Returns 0, or 1 if one failed."""
    findings = [finding for check in CHECKS for finding in _guarded(check, arguments)]
    table = Table(title="vlatools doctor", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("", "what", "found", "what to do"):
        table.add_column(column, overflow="fold")
    marks = {Level.OK: "[green]ok[/]", Level.WARN: "[yellow]warn[/]", Level.FAIL: "[red]fail[/]"}
    for finding in findings:
        table.add_row(marks[finding.level], finding.area, finding.found, finding.fix)
    console.print(table)
    failed = sum(f.level is Level.FAIL for f in findings)
    warned = sum(f.level is Level.WARN for f in findings)
    console.print(f"{len(findings)} checks: {failed} failed, {warned} with a warning")
    return 1 if failed else 0


Check = Callable[[Arguments], Iterator[Finding]]


def _guarded(check: Check, arguments: Arguments) -> list[Finding]:
    """A check that breaks is itself a finding."""
    try:
        return list(check(arguments))
    except Exception as error:
        return [Finding(check.__name__.strip("_"), Level.FAIL, f"{type(error).__name__}: {error}", "report this: the check itself broke")]


def _python(_arguments: Arguments) -> Iterator[Finding]:
    version = platform.python_version()
    good = (3, 10) <= sys.version_info[:2] <= (3, 13)
    fix = "" if good else "use 3.10 to 3.13: VLATOOLS_PYTHON=... make setup"
    yield Finding("Python", Level.OK if good else Level.FAIL, f"{version} in {sys.prefix}", fix)


def _libraries(_arguments: Arguments) -> Iterator[Finding]:
    missing, found = [], []
    for module, package in _LIBRARIES.items():
        try:
            __import__(module)
            found.append(f"{package} {importlib.metadata.version(package)}")
        except ImportError as error:
            missing.append(f"{package} ({error})")
        except importlib.metadata.PackageNotFoundError:
            found.append(package)
    if missing:
        yield Finding("libraries", Level.FAIL, "missing: " + "; ".join(missing), "make setup")
    else:
        yield Finding("libraries", Level.OK, ", ".join(found))


def _ros(_arguments: Arguments) -> Iterator[Finding]:
    try:
        import rclpy  # noqa: F401

        source = os.environ.get("ROS_DISTRO") or "wheels"
        yield Finding("ROS 2", Level.OK, f"rclpy from {source}")
    except ImportError as error:
        yield Finding("ROS 2", Level.FAIL, str(error), "make setup, or source your ROS installation")
        return
    try:
        from vlatools_interfaces.action import InvokeTool  # noqa: F401

        yield Finding("interfaces", Level.OK, "vlatools_interfaces is importable")
    except ImportError as error:
        yield Finding("interfaces", Level.FAIL, str(error), "make setup, or colcon build in ros2_ws and source install/setup.bash")
    try:
        import launch_ros  # noqa: F401

        yield Finding("launch", Level.OK, "ros2 launch vlatools franka.launch.py works here")
    except ImportError:
        instead = "no ROS installation: `vlatools up` starts the same nodes"
        yield Finding("launch", Level.WARN, instead, "install ROS 2 for launch, rviz and tf")


def _rendering(_arguments: Arguments) -> Iterator[Finding]:
    code = (
        "import mujoco; m = mujoco.MjModel.from_xml_string('<mujoco><worldbody><geom size=\".1\"/></worldbody></mujoco>');"
        "d = mujoco.MjData(m); mujoco.mj_forward(m, d); r = mujoco.Renderer(m, 16, 16); r.update_scene(d); r.render()"
    )
    errors = []
    for backend in ("egl", "osmesa"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "MUJOCO_GL": backend}, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode == 0:
            yield Finding("rendering", Level.OK, f"off-screen OpenGL by {backend}")
            return
        errors.append(f"{backend}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    yield Finding("rendering", Level.FAIL, "; ".join(errors), "apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri")


def _robot(arguments: Arguments) -> Iterator[Finding]:
    if arguments.sim:
        yield Finding("robot", Level.OK, "simulated")
        return
    try:
        with socket.create_connection((arguments.robot_ip, _FCI_PORT), timeout=_CONNECT_S):
            yield Finding("robot", Level.OK, f"{arguments.robot_ip}:{_FCI_PORT} answers")
    except OSError as error:
        yield Finding(
            "robot",
            Level.WARN,
            f"{arguments.robot_ip}:{_FCI_PORT} does not answer ({error})",
            "unlock the joints and activate FCI in Desk, check the cable, or give --robot-ip; without a robot: vlatools demo",
        )


def _camera(arguments: Arguments) -> Iterator[Finding]:
    if arguments.sim:
        yield Finding("camera", Level.OK, "simulated")
        return
    import pyrealsense2 as rs

    devices = [(d.get_info(rs.camera_info.name), d.get_info(rs.camera_info.serial_number)) for d in rs.context().query_devices()]
    wanted = arguments.camera_serial
    if any(not wanted or serial == wanted for _, serial in devices):
        yield Finding("camera", Level.OK, ", ".join(f"{name} {serial}" for name, serial in devices))
    else:
        seen = ", ".join(f"{name} {serial}" for name, serial in devices) or "no RealSense"
        found = f"{seen}; wanted {wanted}" if wanted else seen
        yield Finding("camera", Level.WARN, found, "plug it into a USB 3 port; without a camera: vlatools demo")


def _calibration(arguments: Arguments) -> Iterator[Finding]:
    from vlatools.camera import calibration

    try:
        path = find_config(arguments.calibration_file)
        loaded = calibration.load(path)
        yield Finding("calibration", Level.OK, f"{path.name} of {loaded.provenance.date}, residual {loaded.provenance.residual_mm:.1f} mm")
    except VlatoolsError as error:
        yield Finding("calibration", Level.WARN, str(error), "write calibration/lab.yaml as docs/operator.md says")


def _configuration(_arguments: Arguments) -> Iterator[Finding]:
    from vlatools.trials.tasks import load_task, task_names

    folder = share_root() / "config" / "tasks"
    names = task_names(folder)
    for name in names:
        load_task(folder, name)
    yield Finding("configuration", Level.OK, f"{share_root()}; tasks {', '.join(names)}")


def _ports(arguments: Arguments) -> Iterator[Finding]:
    if not arguments.sim:
        return
    from vlatools.nodes.supervisor import free_simulation

    domain, host = free_simulation()
    yield Finding("ports", Level.OK, f"{host}:{_FCI_PORT} is free, ROS domain {domain}")


def _machine(arguments: Arguments) -> Iterator[Finding]:
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    yield _enough("disk", free >= _MIN_DISK_GB, f"{free:.0f} GB free here", f"bags need {_MIN_DISK_GB:.0f} GB")
    cores = os.cpu_count() or 1
    yield _enough("cores", cores >= 2, str(cores), "the simulation in real time needs two")
    shm = shutil.disk_usage("/dev/shm").free / 1e6 if Path("/dev/shm").exists() else 0.0
    yield _enough("shared memory", shm >= _MIN_SHM_MB, f"{shm:.0f} MB free in /dev/shm", "images travel there: docker run --ipc=host")
    if not arguments.sim:
        flag = Path("/sys/kernel/realtime")
        realtime = flag.exists() and flag.read_text().strip() == "1"
        yield _enough("kernel", realtime, platform.release(), "use a PREEMPT_RT kernel and the performance governor on the robot's machine")


def _enough(area: str, good: bool, found: str, fix: str) -> Finding:
    """Ok, or a warning with what to do."""
    return Finding(area, Level.OK if good else Level.WARN, found, "" if good else fix)


CHECKS: tuple[Check, ...] = (_python, _libraries, _ros, _configuration, _calibration, _rendering, _robot, _camera, _ports, _machine)
