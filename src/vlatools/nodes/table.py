"""The one table of processes: launch/franka.launch.py and ``vlatools up`` start the same nodes with the same parameters.

Plain data, no ROS: it can be read where ROS is not installed.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlatools.config import config_root
from vlatools.core import ConfigError
from vlatools.shared_clock import VARIABLE

PARAMETER_FILE = "franka.yaml"
FASTDDS_PROFILE = "fastdds.xml"
SIM_CAMERA_SERIAL = "SIM-D435-0001"
_KEEPS_TIME, _STEPS_BACK = -10, 5


def _argument(default: object, text: str) -> object:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Arguments:
    """Arguments of the launch file and of ``vlatools up``. IPs, serial numbers and versions are strings."""

    robot_ip: str = _argument("172.16.0.2", "address of the robot's control unit; in simulation, of the simulated one")  # type: ignore[assignment]
    sim: bool = _argument(False, "start the simulated robot and camera instead of using real ones")  # type: ignore[assignment]
    camera_serial: str = _argument("", "serial number of the D435; empty: the only one connected")  # type: ignore[assignment]
    calibration: str = _argument("", "hand-eye calibration file in calibration/; empty: sim_d435.yaml in simulation, lab.yaml else")  # type: ignore[assignment]
    policy: str = _argument("analytic", "policy that executes the tool families")  # type: ignore[assignment]
    planner: str = _argument("library", "planner behind /run_task")  # type: ignore[assignment]
    record: bool = _argument(True, "start the recorder")  # type: ignore[assignment]
    rviz: bool = _argument(False, "start rviz with config/vlatools.rviz (needs a ROS installation)")  # type: ignore[assignment]
    task: str = _argument("simple", "scene of the simulation: simple, conditioned or long")  # type: ignore[assignment]
    seed: int = _argument(0, "seed of the simulated scene")  # type: ignore[assignment]
    speed: float = _argument(1.0, "speed scale of the arm, above 0 up to 1")  # type: ignore[assignment]
    trials: str = _argument("trials", "folder in which the recorder makes one folder a trial")  # type: ignore[assignment]
    domain: str = _argument("default", "name that keeps two simulations on one machine apart")  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not 0 < self.speed <= 1:
            raise ConfigError(f"speed is {self.speed}, it must be above 0 and at most 1: e.g. speed:=0.5")
        if not self.robot_ip:
            raise ConfigError("robot_ip is empty: give the address of the robot's control unit, e.g. robot_ip:=172.16.0.2")

    @property
    def calibration_file(self) -> str:
        """The calibration in use, as its node's parameter."""
        name = self.calibration or ("sim_d435.yaml" if self.sim else "lab.yaml")
        return name if "/" in name else f"calibration/{name}"

    @staticmethod
    def descriptions() -> dict[str, tuple[str, str]]:
        """Name -> (default as launch writes it, description)."""
        return {
            f.name: (str(f.default).lower() if isinstance(f.default, bool) else str(f.default), str(f.metadata["help"]))
            for f in dataclasses.fields(Arguments)
        }

    @staticmethod
    def parse(values: Mapping[str, str]) -> Arguments:
        """Arguments from strings, as launch gives them.

        Raises:
            ConfigError: unknown name or a value that does not parse; names both and the fix.
        """
        known = {f.name: f for f in dataclasses.fields(Arguments)}
        parsed: dict[str, object] = {}
        for name, text in values.items():
            if name not in known:
                raise ConfigError(f"unknown argument {name!r}; known: {', '.join(known)}")
            default: Any = known[name].default
            try:
                if isinstance(default, bool):
                    parsed[name] = {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
                else:
                    parsed[name] = type(default)(text)
            except (KeyError, ValueError):
                raise ConfigError(f"argument {name}={text!r} must be of type {type(default).__name__}") from None
        return Arguments(**parsed)  # type: ignore[arg-type]


Parameters = Mapping[str, "str | bool | int | float"]


@dataclass(frozen=True)
class ProcessSpec:
    """One process of the graph.

    Attributes:
        name: node name, or ``sim`` for the simulated lab, which is no ROS node.
        module: run as ``python -m module``.
        when: whether it runs, given the arguments.
        parameters: ROS parameters that follow from the arguments; they override the parameter file.
        command: command-line options (the simulation only).
        ros: it is a ROS node.
        nice: priority of the process where the system allows it: what must keep time goes before what only has to be done.
    """

    name: str
    module: str
    when: Callable[[Arguments], bool] = lambda _a: True
    parameters: Callable[[Arguments], Parameters] = lambda _a: {}
    command: Callable[[Arguments], list[str]] = lambda _a: []
    ros: bool = True
    nice: int = 0

    @property
    def executable(self) -> str:
        """Name of the installed executable (``ros2 run vlatools NAME``)."""
        return self.name


def _camera(arguments: Arguments) -> Parameters:
    if arguments.sim:
        return {
            "source": "sim",
            "serial": SIM_CAMERA_SERIAL,
            "sim_domain": arguments.domain,
            "calibration": arguments.calibration_file,
        }
    return {"source": "device", "serial": arguments.camera_serial, "calibration": arguments.calibration_file}


def _calibrated(arguments: Arguments) -> Parameters:
    return {"calibration": arguments.calibration_file}


TABLE: tuple[ProcessSpec, ...] = (
    ProcessSpec(
        "sim",
        "vlatools.sim.main",
        when=lambda a: a.sim,
        command=lambda a: ["--scene", a.task, "--seed", str(a.seed), "--host", a.robot_ip, "--domain", a.domain, "--verbose"],
        ros=False,
        nice=_KEEPS_TIME,
    ),
    ProcessSpec("arm", "vlatools.nodes.arm", parameters=lambda a: {"robot_ip": a.robot_ip, "speed": a.speed}, nice=_KEEPS_TIME),
    ProcessSpec("camera", "vlatools.nodes.camera", parameters=_camera),
    ProcessSpec("perception", "vlatools.nodes.perception", parameters=_calibrated),
    ProcessSpec("tools", "vlatools.nodes.tools", parameters=lambda a: {"policy": a.policy, **_calibrated(a)}),
    ProcessSpec("planner", "vlatools.nodes.planner", parameters=lambda a: {"planner": a.planner}),
    ProcessSpec(
        "recorder",
        "vlatools.nodes.recorder",
        when=lambda a: a.record,
        parameters=lambda a: {"root": a.trials, **_calibrated(a)},
        nice=_STEPS_BACK,
    ),
    ProcessSpec("monitor", "vlatools.nodes.monitor", parameters=_calibrated, nice=_STEPS_BACK),
)


def active(arguments: Arguments) -> tuple[ProcessSpec, ...]:
    """The processes that run with these arguments, in starting order."""
    return tuple(spec for spec in TABLE if spec.when(arguments))


def parameter_file() -> Path:
    """The ROS parameter file of all nodes."""
    return config_root() / PARAMETER_FILE


def command_line(spec: ProcessSpec, arguments: Arguments) -> list[str]:
    """How to start a process without ``launch``."""
    line = [sys.executable, "-m", spec.module, *spec.command(arguments)]
    if spec.ros:
        line += ["--ros-args", "--params-file", str(parameter_file())]
        for key, value in spec.parameters(arguments).items():
            # YAML reads the value again: quoted text stays text, so "0123" is no number.
            shown = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
            line += ["-p", f"{key}:={shown}"]
    return line


def environment(arguments: Arguments) -> dict[str, str]:
    """Environment that every process of the graph needs, beside its own.

    Images between processes are lost with Fast DDS's default transports; two cores cannot carry a thread pool a process. In
    simulation every process lives by the simulation's time.
    """
    return {
        "FASTDDS_DEFAULT_PROFILES_FILE": str(config_root() / FASTDDS_PROFILE),
        "RMW_IMPLEMENTATION": "rmw_fastrtps_cpp",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        VARIABLE: arguments.domain if arguments.sim else "",
    }
