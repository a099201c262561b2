"""What a running invocation reports: the progress signal and what the monitor made of it."""

from __future__ import annotations

from dataclasses import dataclass

from vlatools.core.invocation import Invocation
from vlatools.core.monitor import ProgressSample


@dataclass(frozen=True)
class Feedback:
    """One progress report of a running invocation, in order of time: at most 10 to 20 a second, at least two.

    Attributes:
        invocation: the invocation.
        sample: raw (NaN in a mere sign of life) and smoothed progress, gain, verdict and elapsed time.
        phase: what the policy is doing, for people.
        chunk_index: last chunk sent, -1 before the first.
        observation_age_s: age of the observation that this sample was computed from.
    """

    invocation: Invocation
    sample: ProgressSample
    phase: str
    chunk_index: int
    observation_age_s: float
