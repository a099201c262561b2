"""What a server of tool families announces in its first frame, checked closed: what is not expected is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from vlatools.config import parse
from vlatools.core import ActionSpace, ConfigError, Family
from vlatools.policy.picture import HEIGHT, WIDTH
from vlatools.policy.ports import Manifest
from vlatools.policy.state import STATE_LAYOUT

VERSION = 1


@dataclass(frozen=True)
class ServedManifest:
    """The first frame of a server of tool families.

    Attributes:
        tapt_version: of this protocol.
        name, version: of the policy.
        families: the families that it can execute.
        action_space: of the rows it returns: ``ee_pose``, x y z [m] qx qy qz qw of fr3_hand_tcp in fr3_link0, full opening [m].
        dt: seconds between rows.
        horizon: rows in a chunk.
        rate_hz: inferences a second that it is meant to run at.
        cameras: names of the cameras it needs.
        state_layout: names of the numbers in ``observation/state``.
        image_size: width and height of the picture, pixels.
        progress: it gives progress, one value an action.
        unnormalized_by: who un-normalises actions; always ``server``: metres and unit quaternions come over the wire.
        statistics_hash: of the normalisation statistics in use.
        quaternion_order, image_order: order of numbers and channels.

    Raises:
        ConfigError: an entry does not fit this stack; names key, value, limit and fix.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    tapt_version: int
    name: str
    version: str
    families: tuple[Family, ...]
    action_space: str
    dt: float
    horizon: int
    rate_hz: float
    cameras: tuple[str, ...]
    state_layout: tuple[str, ...]
    image_size: tuple[int, int]
    progress: bool
    unnormalized_by: str
    statistics_hash: str
    quaternion_order: str
    image_order: str

    def __post_init__(self) -> None:
        expected: tuple[tuple[str, object, str], ...] = (
            ("tapt_version", VERSION, "use the same version of vlatools on both sides"),
            ("action_space", ActionSpace.EE_POSE.value, "convert actions on the server"),
            ("state_layout", STATE_LAYOUT, "train with this layout, or convert on the server"),
            ("image_size", (WIDTH, HEIGHT), "train with this picture, or convert on the server"),
            ("unnormalized_by", "server", "let the server un-normalise: raw values would go to the robot"),
            ("quaternion_order", "xyzw", "convert on the server"),
            ("image_order", "rgb", "pictures are sent as RGB: train with it, or convert on the server"),
        )
        for key, wanted, fix in expected:
            if (value := getattr(self, key)) != wanted:
                raise ConfigError(f"{key} is {_words(value)}, this stack speaks {_words(wanted)}: {fix}")
        if not self.statistics_hash:
            raise ConfigError("statistics_hash is empty: the server must say which normalisation statistics it applies")

    @classmethod
    def from_wire(cls, metadata: Mapping[str, Any], source: str) -> ServedManifest:
        """Check a first frame; ``source`` names the server in errors. Raises ConfigError."""
        if "tapt_version" not in metadata:
            raise ConfigError(
                f"{source} announces no tool families (its first frame has {sorted(metadata) or 'nothing'}): serve with `vlatools serve`, "
                f"or set the flavour in policy_server.yaml to what it is, e.g. openpi_droid"
            )
        return parse(cls, dict(metadata), source)

    def to_wire(self) -> dict[str, Any]:
        """The first frame: plain values only."""
        return {**asdict(self), "families": [family.value for family in self.families]}

    def to_manifest(self) -> Manifest:
        """As the policy port has it."""
        return Manifest(
            name=self.name,
            version=self.version,
            families=self.families,
            action_space=ActionSpace(self.action_space),
            dt=self.dt,
            horizon=self.horizon,
            rate_hz=self.rate_hz,
            cameras=self.cameras,
            state_layout=self.state_layout,
            reports_progress=self.progress,
            unnormalized_by=self.unnormalized_by,
        )

    def difference(self, other: ServedManifest) -> str:
        """The first entry in which ``other`` differs, in words; "" if none."""
        mine, theirs = self.to_wire(), other.to_wire()
        return next((f"{key} was {_words(mine[key])} and is now {_words(theirs[key])}" for key in mine if mine[key] != theirs[key]), "")


def _words(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else repr(value)
