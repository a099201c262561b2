"""What every node shares: parameters from a dataclass, work beside the executor, a clean life from start to SIGTERM."""

from __future__ import annotations

import dataclasses
import logging
import signal
import sys
import time
import traceback
import types
import typing
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import rclpy
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from vlatools.core.errors import ConfigError, VlatoolsError
from vlatools.nodes.stamps import Stamps

if TYPE_CHECKING:
    from vlatools.nodes.goals import GoalRunner

P = TypeVar("P")
T = TypeVar("T")

_SHUTDOWN_S = 4.0
_TYPES = {
    str: Parameter.Type.STRING,
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    tuple: Parameter.Type.STRING_ARRAY,
}


def declare(node: Node, cls: type[P]) -> P:
    """Declare each field of a frozen dataclass as a read-only ROS parameter and return the checked values.

    Fields are ``str``, ``bool``, ``int``, ``float`` or ``tuple[str, ...]``; ``field(metadata={"help": ...})`` describes them.

    Raises:
        ConfigError: wrong type, or a value that the dataclass refuses; names parameter, value and fix.
    """
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        kind = typing.get_origin(hints[field.name]) or hints[field.name]
        descriptor = ParameterDescriptor(
            name=field.name, type=_TYPES[kind].value, read_only=True, description=str(field.metadata.get("help", ""))
        )
        default: Any = field.default
        if kind is tuple:  # an empty list has no type of its own in ROS
            default = list(default) or Parameter.Type.STRING_ARRAY
        try:
            value = node.declare_parameter(field.name, default, descriptor).value
        except rclpy.exceptions.InvalidParameterTypeException as error:
            like = " (write 2.0, not 2)" if kind is float else ' (write "012", not 012)' if kind is str else ""
            raise ConfigError(f"parameter {field.name} must be of type {kind.__name__}{like}: {error}") from error
        values[field.name] = tuple(value or ()) if kind is tuple else value
    return cls(**values)


class VlatoolsNode(Node):
    """A node whose callbacks are short: whatever blocks runs in a worker and is awaited.

    Subclasses set ``NAME`` and ``PARAMS`` and build everything in ``__init__``; ``close`` releases what they hold.
    """

    NAME: ClassVar[str]
    PARAMS: ClassVar[type[Any]]

    def __init__(self) -> None:
        super().__init__(self.NAME)
        self.params = declare(self, self.PARAMS)
        self.stamps = Stamps(self)
        self.runners: list[GoalRunner[Any, Any, Any]] = []
        self._workers = ThreadPoolExecutor(max_workers=16, thread_name_prefix=f"{self.NAME}-worker")

    def in_worker(self, work: Callable[[], T]) -> Future[T]:
        """Run blocking work in a thread; await the future in an ``async`` callback."""
        future: Future[T] = Future(executor=self.executor)

        def run() -> None:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
            finally:
                if self.executor is not None:
                    self.executor.wake()

        self._workers.submit(run)
        return future

    def blocking(self, handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Coroutine[Any, Any, Any]]:
        """A service callback whose handler may block: it runs in a worker."""

        async def callback(request: Any, response: Any) -> Any:
            return await self.in_worker(lambda: handler(request, response))

        return callback

    @property
    def busy(self) -> bool:
        """Whether a goal is still running."""
        return any(runner.active for runner in self.runners)

    def end_goals(self) -> None:
        """Cancel every running goal; each still gets its result."""
        for runner in self.runners:
            runner.end_all()

    def close(self) -> None:
        """Release devices, files and threads. Called once, after the goals have ended."""


class _RosLog(logging.Handler):
    """Carries the floors' ordinary log to ROS."""

    def __init__(self, node: Node) -> None:
        super().__init__(logging.INFO)
        self._logger = node.get_logger()

    def emit(self, record: logging.LogRecord) -> None:
        """Forward one record."""
        text = self.format(record)
        if record.levelno >= logging.ERROR:
            self._logger.error(text)
        elif record.levelno >= logging.WARNING:
            self._logger.warning(text)
        else:
            self._logger.info(text)


def run_node(cls: type[VlatoolsNode]) -> int:
    """Life of a node's process: start, spin, and a clean end on SIGINT or SIGTERM. Returns the exit code.

    Configuration and device faults at the start are one clear line on stderr and exit code 2; a callback that fails ends the
    node with exit code 1, after its goals have ended.
    """
    # No lock in here: a second signal may come while the first is being handled, in the same thread.
    ending: list[int] = []
    executor: SingleThreadedExecutor | None = None

    def on_signal(number: int, _frame: types.FrameType | None) -> None:
        first = not ending
        ending.append(number)
        if first and executor is not None:
            executor.wake()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = cls()
    except VlatoolsError as error:
        print(f"{cls.NAME}: {error}", file=sys.stderr, flush=True)
        rclpy.try_shutdown()
        return 2
    handler = _RosLog(node)
    logging.getLogger("vlatools").addHandler(handler)
    logging.getLogger("vlatools").setLevel(logging.INFO)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    code = 0
    try:
        try:
            while not ending and rclpy.ok():
                executor.spin_once(timeout_sec=0.5)
        except ExternalShutdownException:
            pass
        except Exception:  # of a callback: running goals still get their results, then whoever watches starts the node again
            node.get_logger().fatal(f"a callback failed; the node ends:\n{traceback.format_exc()}")
            code = 1
        _end_goals(node, executor)
    finally:
        logging.getLogger("vlatools").removeHandler(handler)
        node.close()
        executor.remove_node(node)
        node.destroy_node()
        rclpy.try_shutdown()
    return code


def _end_goals(node: VlatoolsNode, executor: SingleThreadedExecutor) -> None:
    """Cancel what runs and spin, bounded, until every goal has its result."""
    node.end_goals()
    deadline = time.monotonic() + _SHUTDOWN_S
    sends = 5  # the last results still have to leave
    while rclpy.ok() and time.monotonic() < deadline and (node.busy or sends > 0):
        sends -= not node.busy
        try:
            executor.spin_once(timeout_sec=0.05 if node.busy else 0.01)
        except ExternalShutdownException:
            return
        except Exception as error:
            node.get_logger().error(f"while ending: {type(error).__name__}: {error}")
