"""The policy port: observation + invocation -> action chunk + progress. Analytic, remote (openpi) and local models alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vlatools.camera.ports import RgbdFrame
from vlatools.core import ActionSpace, Family, Invocation, Pose
from vlatools.robot.ports import ArmState


@dataclass(frozen=True)
class Manifest:
    """What a policy announces. A mismatch with the stack refuses to start.

    Attributes:
        name, version: of the policy.
        families: the families that it can execute.
        action_space: of the chunks it returns.
        dt: seconds between rows.
        horizon: rows in a chunk.
        rate_hz: inferences per second that it is meant to run at.
        cameras: names of the cameras it needs, e.g. ("front",).
        state_layout: names of the proprioceptive numbers it reads.
        reports_progress: False when it gives no progress (the executor then judges by horizon and geometry).
        unnormalized_by: who un-normalises actions: ``policy``, ``server`` or ``client``.
    """

    name: str
    version: str
    families: tuple[Family, ...]
    action_space: ActionSpace
    dt: float
    horizon: int
    rate_hz: float
    cameras: tuple[str, ...] = ()
    state_layout: tuple[str, ...] = ()
    reports_progress: bool = True
    unnormalized_by: str = "policy"


@dataclass(frozen=True)
class Observation:
    """What a policy sees at one instant.

    Attributes:
        stamp_s: monotonic time of the oldest part.
        arm: measured arm state.
        frame: RGB-D of the front camera; None for a policy that needs no camera at this instant.
        camera_to_base: pose of the camera's optical frame in fr3_link0.
    """

    stamp_s: float
    arm: ArmState
    frame: RgbdFrame | None
    camera_to_base: Pose


@dataclass(frozen=True)
class PolicyOutput:
    """One inference.

    Attributes:
        actions: float64 (H, 8) in the manifest's action space; row i is meant for (i + 1) * dt after the observation.
        progress: 0 to 1, progress of the invocation at the observation; NaN if the policy reports none.
        phase: what it is doing, for people.
        failed: why the policy cannot go on (e.g. "the red cube is not in view"), "" otherwise.
        measurements: numbers that progress was computed from.
    """

    actions: NDArray[np.float64]
    progress: float
    phase: str = ""
    failed: str = ""
    measurements: dict[str, float] | None = None


class PolicySession(Protocol):
    """One invocation in execution; it holds what the policy must remember (start pose, adapter, elapsed steps)."""

    def infer(self, observation: Observation) -> PolicyOutput:
        """Compute the next chunk and the progress."""
        ...

    def needs_frame(self) -> bool:
        """Whether the next ``infer`` needs a fresh camera frame (a learned policy: always)."""
        ...

    def close(self) -> None:
        """The invocation has ended."""
        ...


class Policy(Protocol):
    """A tool-family executor."""

    @property
    def manifest(self) -> Manifest:
        """What it can do."""
        ...

    def begin(self, invocation: Invocation, observation: Observation) -> PolicySession:
        """Start an invocation. Raises Rejected when family or arguments cannot be served."""
        ...
