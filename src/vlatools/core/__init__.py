"""Floor 0: the vocabulary of the stack. NumPy only, no ROS, no I/O; time is injected."""

from vlatools.core.cancel import CancelToken
from vlatools.core.chunk import ActionChunk, ActionSpace
from vlatools.core.clock import Clock, ManualClock, MonotonicClock
from vlatools.core.errors import (
    ArmFault,
    ChunkRefused,
    ConfigError,
    Rejected,
    StaleData,
    VlatoolsError,
)
from vlatools.core.families import FAMILIES, Family, FamilySpec
from vlatools.core.feedback import Feedback
from vlatools.core.invocation import Invocation, InvocationResult, MonitorOverrides
from vlatools.core.monitor import MonitorConfig, ProgressMonitor, ProgressSample, Verdict
from vlatools.core.outcome import Outcome
from vlatools.core.pose import Pose

__all__ = [
    "FAMILIES",
    "ActionChunk",
    "ActionSpace",
    "ArmFault",
    "CancelToken",
    "ChunkRefused",
    "Clock",
    "ConfigError",
    "Family",
    "FamilySpec",
    "Feedback",
    "Invocation",
    "InvocationResult",
    "ManualClock",
    "MonitorConfig",
    "MonitorOverrides",
    "MonotonicClock",
    "Outcome",
    "Pose",
    "ProgressMonitor",
    "ProgressSample",
    "Rejected",
    "StaleData",
    "Verdict",
    "VlatoolsError",
]
