"""A node for tests of a node's life: one action that works until it is canceled, one topic whose callback breaks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from std_msgs.msg import Empty, String
from vlatools_interfaces.action import Home

from vlatools.core import CancelToken, ConfigError, Outcome
from vlatools.nodes.base import VlatoolsNode, run_node
from vlatools.nodes.goals import GoalRunner


@dataclass(frozen=True)
class LifecycleParams:
    """One parameter of every type."""

    serial: str = field(default="", metadata={"help": "a text that looks like a number"})
    fast: bool = field(default=False, metadata={"help": "a switch"})
    count: int = field(default=3, metadata={"help": "1 to 10"})
    rate: float = field(default=1.5, metadata={"help": "a rate [Hz]"})
    topics: tuple[str, ...] = field(default=(), metadata={"help": "a list that may be empty"})

    def __post_init__(self) -> None:
        if not 1 <= self.count <= 10:
            raise ConfigError(f"count is {self.count}, it must be 1 to 10")


class LifecycleNode(VlatoolsNode):
    """See the module."""

    NAME = "lifecycle"
    PARAMS = LifecycleParams

    def __init__(self) -> None:
        super().__init__()
        GoalRunner[Any, Any, Any](self, Home, "/lifecycle/work", self._work)
        self.create_subscription(Empty, "/lifecycle/break", self._break, 1)
        self._said = self.create_publisher(String, "/lifecycle/params", 1)
        self.create_timer(0.1, lambda: self._said.publish(String(data=repr(self.params))))

    def close(self) -> None:
        """Say that it was called."""
        print("closed", flush=True)

    def _break(self, _message: Empty) -> None:
        raise ValueError("broken on purpose")

    @staticmethod
    def _work(_goal: Any, cancel: CancelToken, _feedback: Callable[[Any], None]) -> Home.Result:
        while not cancel.canceled:
            time.sleep(0.01)
        return Home.Result(outcome=Outcome.CANCELED.value, reason="canceled")


if __name__ == "__main__":
    raise SystemExit(run_node(LifecycleNode))
