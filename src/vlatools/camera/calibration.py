"""Where the camera stands: a YAML file with the transform and its provenance, and a loader that refuses nonsense.

The intrinsics are not in it: they come from the device.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import yaml

from vlatools import config
from vlatools.core import ConfigError, Pose

FORMAT = "vlatools-hand-eye-1"
PARENT_FRAME = "fr3_link0"
CHILD_FRAME = "camera_color_optical_frame"
WORKSPACE_CENTRE = np.array([0.50, 0.0, 0.0])
MIN_HEIGHT_M = 0.10
MAX_DISTANCE_M = 3.0
MAX_OFF_AXIS_DEG = 30.0
MAX_RESIDUAL_MM = 20.0
MAX_RESIDUAL_DEG = 3.0


@dataclass(frozen=True)
class Provenance:
    """Where a calibration comes from.

    Attributes:
        camera_serial: serial number of the camera, a string.
        date: ISO date of the measurement, e.g. "2025-03-14".
        method: how it was measured, e.g. "charuco, calibrateHandEye park".
        samples: robot poses used.
        residual_mm, residual_deg: mean error over poses that were not used for the fit.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    camera_serial: str
    date: str
    method: str
    samples: int
    residual_mm: float
    residual_deg: float

    def __post_init__(self) -> None:
        for key in ("camera_serial", "method"):
            if not getattr(self, key).strip():
                raise ConfigError(f"provenance.{key} is empty: say it, a transform of unknown origin is not used")
        try:
            datetime.date.fromisoformat(self.date)
        except ValueError:
            raise ConfigError(f"provenance.date is {self.date!r}, it must be an ISO date such as '2025-03-14'") from None
        if self.samples < 0:
            raise ConfigError(f"provenance.samples is {self.samples}, it must be 0 (exact by design) or more")
        for key, limit, unit in (("residual_mm", MAX_RESIDUAL_MM, "mm"), ("residual_deg", MAX_RESIDUAL_DEG, "deg")):
            value = getattr(self, key)
            if not (math.isfinite(value) and 0 <= value <= limit):
                raise ConfigError(
                    f"provenance.{key} is {value} {unit}, the limits are 0 and {limit} {unit}: "
                    "calibrate again with more poses and more rotation between them"
                )


@dataclass(frozen=True)
class Calibration:
    """Pose of the camera's colour optical frame in the robot's base frame, with provenance.

    Attributes:
        format: always ``vlatools-hand-eye-1``.
        parent_frame, child_frame: the transform takes points of the child frame into the parent frame.
        position: origin of the child frame in the parent frame, metres.
        quat_xyzw: orientation of the child frame in the parent frame.
        provenance: where it comes from.
        hash: fingerprint of all the rest, see :func:`fingerprint`.

    Raises:
        ConfigError: the transform cannot be that of a camera that looks at the workspace, or the file was changed.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    format: str
    parent_frame: str
    child_frame: str
    position: tuple[float, float, float]
    quat_xyzw: tuple[float, float, float, float]
    provenance: Provenance
    hash: str

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ConfigError(f"format is {self.format!r}, this version reads {FORMAT!r}")
        if (self.parent_frame, self.child_frame) != (PARENT_FRAME, CHILD_FRAME):
            raise ConfigError(
                f"the transform is from {self.child_frame!r} to {self.parent_frame!r}, it must be from {CHILD_FRAME!r} to "
                f"{PARENT_FRAME!r}: name the frames so, and invert the transform if it is the other way round"
            )
        try:
            pose = Pose(np.array(self.position), np.array(self.quat_xyzw))
        except ValueError as error:
            raise ConfigError(f"position and quat_xyzw are no pose: {error}") from None
        height = float(pose.position[2])
        if height < MIN_HEIGHT_M:
            raise ConfigError(
                f"the camera's height is {height:.3f} m, the limit is {MIN_HEIGHT_M} m above the table: "
                "the transform may be inverted or in millimetres of another frame"
            )
        to_workspace = WORKSPACE_CENTRE - pose.position
        distance = float(np.linalg.norm(to_workspace))
        if distance > MAX_DISTANCE_M:
            raise ConfigError(
                f"the camera is {distance:.2f} m from the workspace's centre {WORKSPACE_CENTRE.tolist()}, "
                f"the limit is {MAX_DISTANCE_M} m: position is in metres"
            )
        cosine = float(pose.rotation[:, 2] @ to_workspace) / distance
        angle = math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
        if angle > MAX_OFF_AXIS_DEG:
            raise ConfigError(
                f"the camera's optical axis passes the workspace's centre at {angle:.0f} deg, the limit is "
                f"{MAX_OFF_AXIS_DEG:.0f} deg: quat_xyzw is that of the optical frame (z forward, x right, y down); "
                "the transform may be inverted"
            )
        digest = fingerprint(self.position, self.quat_xyzw, self.provenance)
        if self.hash != digest:
            raise ConfigError(
                f"hash is {self.hash!r}, the content's is {digest!r}: the file was changed after it was written; "
                "calibrate again, or put that hash into the file if the change is meant"
            )

    @property
    def camera_to_base(self) -> Pose:
        """Pose of the camera's optical frame in fr3_link0."""
        return Pose(np.array(self.position), np.array(self.quat_xyzw))


def fingerprint(position: Sequence[float], quat_xyzw: Sequence[float], provenance: Provenance) -> str:
    """First 16 hex digits of the SHA-256 of frames, transform and provenance."""
    content = [
        [FORMAT, PARENT_FRAME, CHILD_FRAME],
        [round(float(x), 9) for x in (*position, *quat_xyzw)],
        [provenance.camera_serial, provenance.date, provenance.method, provenance.samples],
        [round(float(provenance.residual_mm), 6), round(float(provenance.residual_deg), 6)],
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def create(pose: Pose, provenance: Provenance) -> Calibration:
    """Calibration of a measured pose of the camera's optical frame in fr3_link0. Raises ConfigError."""
    x, y, z = (float(value) for value in pose.position)
    qx, qy, qz, qw = (float(value) for value in pose.quat_xyzw)
    digest = fingerprint((x, y, z), (qx, qy, qz, qw), provenance)
    return Calibration(FORMAT, PARENT_FRAME, CHILD_FRAME, (x, y, z), (qx, qy, qz, qw), provenance, digest)


def load(path: str | Path, camera_serial: str | None = None) -> Calibration:
    """Read a calibration file.

    Args:
        path: YAML file.
        camera_serial: serial number of the camera in use; None skips the comparison.

    Raises:
        ConfigError: unreadable, incomplete, nonsense, or of another camera; the message names file, key, limit and fix.
    """
    calibration = config.load(Calibration, path)
    found = calibration.provenance.camera_serial
    if camera_serial is not None and found != camera_serial:
        raise ConfigError(
            f"{path}: made for the camera with serial {found!r}, the camera in use is {camera_serial!r}: "
            "calibrate this camera, or give its own calibration file"
        )
    return calibration


def save(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration file that :func:`load` reads back."""
    source = calibration.provenance
    content = {
        "format": calibration.format,
        "parent_frame": calibration.parent_frame,
        "child_frame": calibration.child_frame,
        "position": list(calibration.position),
        "quat_xyzw": list(calibration.quat_xyzw),
        "provenance": {
            "camera_serial": source.camera_serial,
            "date": source.date,
            "method": source.method,
            "samples": source.samples,
            "residual_mm": source.residual_mm,
            "residual_deg": source.residual_deg,
        },
        "hash": calibration.hash,
    }
    header = "# Pose of the camera's colour optical frame in the robot's base frame: metres, x y z w. Written by vlatools.\n"
    Path(path).write_text(header + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
