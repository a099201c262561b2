"""What the agent needs of the world: tools to call, a look at the scene, and the arm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vlatools.core import CancelToken, Feedback, Invocation, InvocationResult
from vlatools.perception.ports import Scene
from vlatools.robot.ports import ArmState, Primitive, PrimitiveFeedback, PrimitiveResult


class Tools(Protocol):
    """The tool families as the agent sees them: the executor itself, or action clients."""

    def invoke(
        self,
        invocation: Invocation,
        cancel: CancelToken,
        on_feedback: Callable[[Feedback], None] | None = None,
    ) -> InvocationResult:
        """Run one bounded invocation to its end; refusals and faults are outcomes, not exceptions."""
        ...


class AgentArm(Protocol):
    """The part of the Arm port that the agent uses between invocations."""

    def state(self) -> ArmState:
        """Newest state; raises StaleData when it is too old."""
        ...

    def run(
        self,
        primitive: Primitive,
        cancel: CancelToken | None = None,
        on_feedback: Callable[[PrimitiveFeedback], None] | None = None,
    ) -> PrimitiveResult:
        """Run a primitive to its end."""
        ...

    def recover(self, allow_collision: bool = False) -> tuple[str, ...]:
        """Clear recoverable errors. Raises ArmFault when one is not allowed or does not clear."""
        ...


Observe = Callable[[], Scene]
"""A look at the table after the arm has settled. Raises StaleData when no fresh frame came."""
