"""Starts the table of processes where no ``launch`` is installed, restarts what dies, and ends all of it cleanly."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from vlatools.core import ConfigError
from vlatools.nodes.table import Arguments, ProcessSpec, active, command_line, environment

_POLL_S = 0.2
_STOP_S = 6.0
_MAX_RESTARTS = 5
_RESTART_WINDOW_S = 60.0
_ROBOT_PORT = 1337
_DOMAINS = range(10, 100)


@dataclass
class Process:
    """One process of the graph."""

    spec: ProcessSpec
    log: Path
    popen: subprocess.Popen[bytes] | None = None
    starts: deque[float] = field(default_factory=deque)
    again_s: float | None = None  # when it is started again
    gave_up: str = ""

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self.popen is not None and self.popen.poll() is None


class Graph:
    """The running graph.

    Args:
        arguments: of the table.
        log_folder: gets one file a process.
        ros_domain: ROS_DOMAIN_ID.
        say: told in one line what happens (a process died, is started again, is given up).
    """

    def __init__(
        self, arguments: Arguments, log_folder: Path, ros_domain: int, say: Callable[[str], None] = lambda _line: None
    ) -> None:
        self.arguments = arguments
        self.log_folder = log_folder
        self.ros_domain = ros_domain
        self._say = say
        log_folder.mkdir(parents=True, exist_ok=True)
        self.processes = {s.name: Process(s, log_folder / f"{s.name}.log") for s in active(arguments)}
        self._broken = ""
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._run, name="supervisor", daemon=True)

    @property
    def env(self) -> dict[str, str]:
        """Environment of every process, for clients of the graph as well."""
        env = {**os.environ, **environment(self.arguments), "ROS_DOMAIN_ID": str(self.ros_domain)}
        if self.arguments.sim:  # a simulation is nobody else's business on the network
            env["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
        return env

    def start(self) -> None:
        """Start everything and watch it."""
        self._watch.start()

    def failed(self) -> list[str]:
        """Processes that were given up, each with the end of its log."""
        return [reason for reason in (self._broken, *(p.gave_up for p in self.processes.values())) if reason]

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to one process (tests and fault injection)."""
        process = self.processes[name]
        if process.popen is not None:
            process.popen.send_signal(number)

    def stop(self) -> None:
        """End all: SIGTERM in reverse order of starting, then SIGKILL for what does not end in time. Idempotent."""
        self._stopping.set()
        if self._watch.is_alive():
            self._watch.join()

    # -- the watching thread: it starts and ends every process, because a process is told (SIGTERM) when the thread that
    # -- started it ends. So nothing outlives a supervisor that is killed.

    def _run(self) -> None:
        try:
            for process in self.processes.values():
                self._spawn(process)
            while not self._stopping.wait(_POLL_S):
                for process in self.processes.values():
                    if not process.running and not process.gave_up:
                        self._again(process)
        except OSError as error:
            self._broken = f"processes cannot be started: {error}"
            self._say(self._broken)
        finally:
            self._end_all()

    def _spawn(self, process: Process) -> None:
        process.starts.append(time.monotonic())
        process.again_s = None
        with process.log.open("ab") as log:
            process.popen = subprocess.Popen(
                command_line(process.spec, self.arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,  # Ctrl-C reaches the supervisor, which ends the rest in order
                preexec_fn=partial(_begin, process.spec.nice),
            )

    def _again(self, process: Process) -> None:
        assert process.popen is not None
        code = process.popen.returncode
        name, now = process.spec.name, time.monotonic()
        if process.again_s is not None:
            if now >= process.again_s:
                self._spawn(process)
            return
        while process.starts and process.starts[0] < now - _RESTART_WINDOW_S:
            process.starts.popleft()
        if code == 2 or len(process.starts) > _MAX_RESTARTS:
            why = "cannot start" if code == 2 else f"died {len(process.starts)} times within {_RESTART_WINDOW_S:.0f} s"
            process.gave_up = f"{name} {why}: {last_lines(process.log)} (log: {process.log})"
            self._say(process.gave_up)
            return
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        self._say(f"{name} ended ({how}); starting it again")
        process.again_s = now + min(2.0, 0.2 * 2 ** (len(process.starts) - 1))

    def _end_all(self) -> None:
        living = [p for p in reversed(list(self.processes.values())) if p.running]
        # The simulation goes last: nodes that end properly still talk to the robot.
        for group in ([p for p in living if p.spec.ros], [p for p in living if not p.spec.ros]):
            for process in group:
                process.popen.terminate()  # type: ignore[union-attr]
            deadline = time.monotonic() + _STOP_S
            for process in group:
                self._reap(process, deadline)

    def _reap(self, process: Process, deadline: float) -> None:
        assert process.popen is not None
        try:
            process.popen.wait(max(0.05, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._say(f"{process.spec.name} did not end within {_STOP_S:.0f} s and is killed; its log: {process.log}")
            process.popen.kill()
            process.popen.wait()


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _begin(nice: int) -> None:
    """In the child: get SIGTERM when the supervisor is gone, however it went; take the priority, where that is allowed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)


def last_lines(log: Path, count: int = 3) -> str:
    """The end of a log in one line."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return " | ".join(lines[-count:])


def free_simulation() -> tuple[int, str]:
    """A ROS domain and a loopback address that no other simulation on this machine uses.

    Raises:
        ConfigError: all are taken.
    """
    start = os.getpid() % len(_DOMAINS)
    for offset in range(len(_DOMAINS)):
        domain = _DOMAINS[(start + offset) % len(_DOMAINS)]
        host = f"127.0.{domain}.1"
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, _ROBOT_PORT))
            except OSError:
                continue
        return domain, host
    raise ConfigError(
        f"all {len(_DOMAINS)} simulation addresses 127.0.x.1:{_ROBOT_PORT} are taken: end a simulation (pgrep -f vlatools.sim)"
    )


def use_environment(env: Mapping[str, str]) -> None:
    """Give this process the graph's ROS settings; call before rclpy is initialised."""
    for key, value in env.items():
        os.environ[key] = value
