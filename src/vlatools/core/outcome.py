"""How an invocation, primitive or task ended: one enum for every result."""

from enum import Enum


class Outcome(str, Enum):
    """Terminal outcome of a goal. The value equals the name, as it stands in messages and files."""

    COMPLETED = "COMPLETED"  # judged complete by measurement
    STAGNATED = "STAGNATED"  # no progress over the look-back window
    TIMEOUT = "TIMEOUT"  # horizon or time limit reached
    CANCELED = "CANCELED"  # canceled, and the arm was measured to stand still
    PREEMPTED = "PREEMPTED"  # a newer goal took over
    FAULT = "FAULT"  # robot, gripper, policy or service fault, or a stop that could not be confirmed
    STALE_OBSERVATION = "STALE_OBSERVATION"  # a frame, state or policy reply was too old
    REJECTED = "REJECTED"  # refused before anything moved

    def __str__(self) -> str:
        return self.value
