"""Where a trial comes from: host, versions, git commit, calibration. What cannot be found out is left empty, never guessed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from vlatools.camera import calibration
from vlatools.core import ConfigError

PACKAGES = (
    "vlatools",
    "ros-rclpy",
    "franky-control",
    "franky-sim",
    "pyrealsense2",
    "mujoco",
    "pin",
    "ruckig",
    "numpy",
    "opencv-python-headless",
    "torch",
)
_GIT_TIMEOUT_S = 5.0


def provenance(calibration_file: Path | None) -> dict[str, Any]:
    """JSON-compatible description of this host, software and calibration."""
    return {
        "host": {
            "name": socket.gethostname(),
            "system": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "ros_distro": os.environ.get("ROS_DISTRO", ""),
        },
        "versions": _versions(),
        "git": _git(Path(__file__).resolve().parent),
        "calibration": _calibration(calibration_file),
    }


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _git(folder: Path) -> dict[str, Any]:
    def ask(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True)
        return done.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return {"commit": "", "changed": False}


def _calibration(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = calibration.load(path)
    except (OSError, ConfigError) as error:
        return {"file": str(path), "error": str(error)}
    return {
        "file": str(path),
        "hash": found.hash,
        "position": list(found.position),
        "quat_xyzw": list(found.quat_xyzw),
        "camera_serial": found.provenance.camera_serial,
        "date": found.provenance.date,
    }
