"""A ROS context and a spun node for tests of the node infrastructure."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
os.environ.setdefault("ROS_DOMAIN_ID", str(120 + os.getpid() % 80))


@pytest.fixture(scope="session")
def ros() -> Iterator[None]:
    """rclpy, once a session."""
    import rclpy

    if not rclpy.ok():
        rclpy.init()
    yield
    rclpy.try_shutdown()


class Spinner:
    """Spins nodes in a thread of its own, as a node's process does."""

    def __init__(self) -> None:
        from rclpy.executors import SingleThreadedExecutor

        self.executor = SingleThreadedExecutor()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._end.is_set():
            self.executor.spin_once(timeout_sec=0.05)

    def close(self) -> None:
        """Stop spinning."""
        self._end.set()
        self.executor.wake()
        self._thread.join(timeout=2.0)


@pytest.fixture(scope="module")
def module_spinner(ros: None) -> Iterator[Spinner]:
    """A running executor for a whole module."""
    spinner = Spinner()
    yield spinner
    spinner.close()
