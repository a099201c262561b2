"""Settings of the analytic policy. Loaded from ``config/analytic.yaml``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vlatools.core import ConfigError

_FORBID: dict[str, Any] = {"extra": "forbid"}


def _between(key: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"analytic policy: {key} is {value}, the limits are {low:g} to {high:g}: change it")


@dataclass(frozen=True)
class PaceConfig:
    """How fast the policy plans; the arm's own limits hold beside.

    Attributes:
        speed: of the tool, m/s.
        acceleration: of the tool, m/s^2.
        turn_speed, turn_acceleration: of its orientation, rad/s and rad/s^2.
        ramp_s: shortest time to reach full speed, s.
        contact_speed: near contact, m/s.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    speed: float = 0.33
    acceleration: float = 1.8
    turn_speed: float = 1.5
    turn_acceleration: float = 5.0
    ramp_s: float = 0.25
    contact_speed: float = 0.10

    def __post_init__(self) -> None:
        _between("pace.speed", self.speed, 0.01, 1.0)
        _between("pace.acceleration", self.acceleration, 0.05, 6.0)
        _between("pace.turn_speed", self.turn_speed, 0.05, 2.5)
        _between("pace.turn_acceleration", self.turn_acceleration, 0.1, 17.0)
        _between("pace.ramp_s", self.ramp_s, 0.05, 2.0)
        _between("pace.contact_speed", self.contact_speed, 0.005, 0.5)


@dataclass(frozen=True)
class ShapeConfig:
    """Shapes of hand and objects that perception does not give; metres.

    Attributes:
        open_width: full opening of the gripper.
        finger_thickness: of one finger along the closing direction.
        finger_reach: from the tool centre point down to the tip of the fingers.
        hand_length, hand_depth: half extents of the hand along and across the closing direction.
        hand_height: of the hand's lower side above the tool centre point.
        cube_size: of a cube that is not seen.
        bowl_radius, bowl_height: outer rim radius and rim height of a bowl that is not seen.
        bowl_wall, bowl_slope: wall thickness, and inward slope of the wall (horizontal over vertical).
        bowl_floor: height of a bowl's floor above what it stands on.
        rim_depth: of the tool centre point below the rim in a rim grasp.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    open_width: float = 0.08
    finger_thickness: float = 0.014
    finger_reach: float = 0.010
    hand_length: float = 0.105
    hand_depth: float = 0.035
    hand_height: float = 0.045
    cube_size: float = 0.04
    bowl_radius: float = 0.066
    bowl_height: float = 0.045
    bowl_wall: float = 0.004
    bowl_slope: float = 0.38
    bowl_floor: float = 0.004
    rim_depth: float = 0.010

    def __post_init__(self) -> None:
        for key, low, high in (
            ("open_width", 0.02, 0.08),
            ("finger_thickness", 0.002, 0.05),
            ("finger_reach", 0.0, 0.03),
            ("hand_length", 0.02, 0.2),
            ("hand_depth", 0.01, 0.1),
            ("hand_height", 0.02, 0.1),
            ("cube_size", 0.01, 0.078),
            ("bowl_radius", 0.02, 0.3),
            ("bowl_height", 0.01, 0.3),
            ("bowl_wall", 0.001, 0.02),
            ("bowl_slope", 0.0, 2.0),
            ("bowl_floor", 0.0, 0.03),
            ("rim_depth", 0.004, 0.03),
        ):
            _between(f"shapes.{key}", getattr(self, key), low, high)


@dataclass(frozen=True)
class AnalyticConfig:
    """The analytic policy.

    Attributes:
        dt: seconds between the rows of a chunk.
        horizon: rows in a chunk.
        rate_hz: inferences a second.
        clearance: of the lowest carried point above what is passed over, m.
        hover: of the held object's bottom above its place at the end of a move, m.
        lift: after a grasp, m.
        retreat: after a release, m.
        release_margin: how much wider than the object the gripper opens first, m.
        position_tolerance, turn_tolerance: a way-point counts as reached within this, m and rad.
        off_path: distance from the planned path at which the path is planned anew from the measured pose, m.
        contact_force: change of the vertical force that ends a lowering, N.
        min_confidence: of a detection that is acted on.
        max_corrections: how often a push that fell short is repeated.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    dt: float = 0.1
    horizon: int = 9
    rate_hz: float = 8.0
    clearance: float = 0.035
    hover: float = 0.02
    lift: float = 0.03
    retreat: float = 0.10
    release_margin: float = 0.022
    position_tolerance: float = 0.006
    turn_tolerance: float = 0.06
    off_path: float = 0.06
    contact_force: float = 8.0
    min_confidence: float = 0.3
    max_corrections: int = 2
    pace: PaceConfig = field(default_factory=PaceConfig)
    shapes: ShapeConfig = field(default_factory=ShapeConfig)

    def __post_init__(self) -> None:
        for key, low, high in (
            ("dt", 0.02, 0.5),
            ("horizon", 2, 100),
            ("rate_hz", 0.5, 30.0),
            ("clearance", 0.005, 0.2),
            ("hover", 0.0, 0.2),
            ("lift", 0.005, 0.2),
            ("retreat", 0.02, 0.3),
            ("release_margin", 0.005, 0.08),
            ("position_tolerance", 0.001, 0.05),
            ("turn_tolerance", 0.005, 0.5),
            ("off_path", 0.01, 0.3),
            ("contact_force", 1.0, 50.0),
            ("min_confidence", 0.0, 1.0),
            ("max_corrections", 0, 10),
        ):
            _between(key, getattr(self, key), low, high)
        if self.horizon * self.dt < 2.0 / self.rate_hz:
            raise ConfigError(
                f"analytic policy: a chunk lasts {self.horizon * self.dt:.2f} s, at least two inference periods "
                f"({2.0 / self.rate_hz:.2f} s) are needed: raise horizon, dt or rate_hz"
            )
