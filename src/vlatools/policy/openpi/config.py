"""Settings of remote policies. Loaded from ``config/policy_server.yaml``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, TypeAlias

from vlatools.core import ConfigError, Family

_FORBID: dict[str, Any] = {"extra": "forbid"}
Triple: TypeAlias = tuple[float, float, float]


def _between(key: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"{key} is {value}, the limits are {low:g} to {high:g}: change it")


class Flavour(str, Enum):
    """What a server speaks."""

    TAPT = "tapt"  # `vlatools serve`: openpi's protocol with families, progress and a manifest
    OPENPI_DROID = "openpi_droid"  # a stock openpi server of a DROID policy
    OPENPI_LIBERO = "openpi_libero"  # a stock openpi server of a policy with LIBERO's observations and actions
    OPENVLA_OFT = "openvla_oft"  # an OpenVLA-OFT server, HTTP POST /act, LIBERO's observations and actions


@dataclass(frozen=True)
class StockConfig:
    """What a stock server does not announce. Not read for the flavour ``tapt``.

    Attributes:
        name: of the policy, for people and records.
        families: the families that it was trained for.
        horizon: rows in its chunks; another number is refused.
        dt: seconds between rows: 1/15 for DROID, 1/20 for LIBERO.
        rate_hz: inferences a second.
        joint_step: DROID's joint velocities: rad that a joint turns in one row at an action of 1.
        position_step, rotation_step: LIBERO's deltas: m and rad that the hand moves in one row at an action of 1.
        base_in_world: LIBERO's states: position (3,) m of the robot's base in the frame that the policy was trained in.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str = "stock"
    families: tuple[Family, ...] = (Family.REACH, Family.GRASP, Family.MOVE, Family.RELEASE)
    horizon: int = 15
    dt: float = 1 / 15
    rate_hz: float = 2.0
    joint_step: float = 0.2
    position_step: float = 0.0153
    rotation_step: float = 0.153
    base_in_world: Triple = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        _between("stock.joint_step", self.joint_step, 0.001, 0.5)
        _between("stock.position_step", self.position_step, 0.0005, 0.1)
        _between("stock.rotation_step", self.rotation_step, 0.001, 0.8)
        for axis, value in zip("xyz", self.base_in_world, strict=True):
            _between(f"stock.base_in_world.{axis}", value, -10.0, 10.0)


@dataclass(frozen=True)
class ReplyLimits:
    """What a sane reply keeps; worse is refused before the arm sees it. The arm's own limits apply on top.

    Attributes:
        workspace_min, workspace_max: box that the tool can reach at all, m in fr3_link0.
        jump_position, jump_rotation, jump_joint: largest step from the measured state to the first row and between rows, m, rad, rad.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    workspace_min: Triple = (0.0, -0.70, -0.05)
    workspace_max: Triple = (0.86, 0.70, 1.0)
    jump_position: float = 0.12
    jump_rotation: float = 0.8
    jump_joint: float = 0.5

    def __post_init__(self) -> None:
        for axis, low, high in zip("xyz", self.workspace_min, self.workspace_max, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ConfigError(f"reply.workspace_{{min,max}}.{axis} are {low} and {high} m: min must be below max")
        _between("reply.jump_position", self.jump_position, 0.005, 0.5)
        _between("reply.jump_rotation", self.jump_rotation, 0.05, 3.2)
        _between("reply.jump_joint", self.jump_joint, 0.05, 3.0)


@dataclass(frozen=True)
class PolicyServerConfig:
    """Everything in ``config/policy_server.yaml``.

    Attributes:
        url: address of the server: ``ws://host:port``, for openvla_oft ``http://host:port``.
        flavour: what it speaks.
        start_timeout_s: longest wait for the server when the node starts: it may still load weights.
        connect_timeout_s: longest wait for a new connection at the begin of an invocation.
        read_timeout_s: longest wait for a reply; below executor.policy_timeout_s in tools.yaml.
        statistics_hash: of the normalisation statistics that must be in use, as `vlatools serve` prints it; "" takes what is
            announced first.
        stock: what a stock server does not announce.
        reply: what a sane reply keeps.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    url: str = "ws://127.0.0.1:8000"
    flavour: Flavour = Flavour.TAPT
    start_timeout_s: float = 20.0
    connect_timeout_s: float = 2.0
    read_timeout_s: float = 1.5
    statistics_hash: str = ""
    stock: StockConfig = field(default_factory=StockConfig)
    reply: ReplyLimits = field(default_factory=ReplyLimits)

    def __post_init__(self) -> None:
        scheme = "http://" if self.flavour is Flavour.OPENVLA_OFT else "ws://"
        if not self.url.startswith(scheme):
            raise ConfigError(f"url is {self.url!r}, a server of flavour {self.flavour.value} has {scheme}host:port: mend it")
        _between("start_timeout_s", self.start_timeout_s, 0.1, 600.0)
        _between("connect_timeout_s", self.connect_timeout_s, 0.1, 8.0)
        _between("read_timeout_s", self.read_timeout_s, 0.05, 60.0)
