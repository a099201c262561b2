"""Exceptions of the stack. Each message names the value, the limit and the fix."""


class VlatoolsError(Exception):
    """Base of all errors that vlatools raises on purpose."""


class ConfigError(VlatoolsError):
    """A configuration file or parameter is wrong; the message names key, value, limit and fix."""


class Rejected(VlatoolsError):
    """A request is refused before anything moves.

    Attributes:
        reason: short machine-readable reason, e.g. ``busy``, ``not_ready``, ``bad_argument``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ChunkRefused(Rejected):
    """An action chunk holds NaN, a jump, a wrong shape or comes out of order."""


class StaleData(VlatoolsError):
    """A frame, robot state or policy reply is older than its limit.

    Attributes:
        source: what is stale, e.g. ``camera``, ``arm_state``, ``policy``.
        age_s: its age in seconds (inf if nothing ever came).
    """

    def __init__(self, source: str, age_s: float, limit_s: float, fix: str) -> None:
        super().__init__(f"{source} is {age_s:.2f} s old, the limit is {limit_s:.2f} s: {fix}")
        self.source = source
        self.age_s = age_s
        self.limit_s = limit_s


class ArmFault(VlatoolsError):
    """The robot or its driver reported a fault while something was running.

    Attributes:
        reason: short machine-readable cause, e.g. ``reflex``, ``disconnected``, ``gripper_timeout``.
        errors: the robot's own error names.
    """

    def __init__(self, reason: str, message: str, errors: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.errors = errors
