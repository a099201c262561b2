"""The served mode: a simulated FR3 at 1 kHz behind Franka's own network protocol.

Real time where the machine allows it: steps have deadlines, and while a motion runs each step waits for the client's
command (bounded), so that under load the simulated time slows down instead of the physics going wrong.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from vlatools.shared_clock import SharedClockWriter
from vlatools.sim.franky_gripper_server import GripperServer
from vlatools.sim.franky_robot import RobotServer
from vlatools.sim.scene import SceneConfig, sample
from vlatools.sim.state_share import StateWriter
from vlatools.sim.world import World

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_IDLE_TICKS = 4  # steps at a time while no motion runs
_SHARE_TICKS = 8
_MAX_LAG_S = 0.03  # what is later than this is not caught up
_WINDOW_S = 2.0


@dataclass(frozen=True)
class ServerInfo:
    """State of the served simulation.

    Attributes:
        scene, seed: the present instance.
        time_s: simulated seconds.
        real_time_factor: simulated over real time in the last seconds.
        tick_ms: mean CPU time of a step.
        client, gripper_client, moving: who is connected, and whether a motion runs.
        errors: active robot errors.
    """

    scene: str
    seed: int
    time_s: float
    real_time_factor: float
    tick_ms: float
    client: bool
    gripper_client: bool
    moving: bool
    errors: tuple[str, ...]


class SimServer:
    """One simulated lab that serves a robot and a gripper, and shares its state with the camera.

    Args:
        config, seed: the scene.
        host: address to serve, e.g. 127.0.0.5.
        domain: name of the shared state.

    Raises:
        ConfigError: the address or the domain is taken.
    """

    def __init__(self, config: SceneConfig, seed: int, host: str, domain: str) -> None:
        self._config = config
        self.share = StateWriter(domain)
        self._clock = SharedClockWriter(domain)
        self.world = World(sample(config, seed))
        try:
            self.robot = RobotServer(self.world, host)
            self.gripper = GripperServer(self.world, host)
        except BaseException:
            self.share.close()
            self._clock.close()
            raise
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._pause_until = 0.0
        self._rates = (1.0, 0.0)
        self._publish_scene()

    # -- from other threads ---------------------------------------------------------------------------------------
    def call(self, work: Callable[[], T], timeout_s: float = 5.0) -> T:
        """Run ``work`` between two steps and return what it returns. Raises TimeoutError."""
        done: Future[T] = Future()

        def job() -> None:
            try:
                done.set_result(work())
            except Exception as error:  # belongs to the caller, whatever it is
                done.set_exception(error)

        self._jobs.put(job)
        return done.result(timeout_s)

    # -- between two steps ----------------------------------------------------------------------------------------
    def reset(self, config: SceneConfig | None, seed: int) -> None:
        """Another instance: objects anew, arm at home, gripper open, no errors. A running motion is preempted."""
        self._config = config or self._config
        self.world.reset(sample(self._config, seed))
        self.robot.restart()
        self.gripper.restart()
        self.share.set_camera_frozen(False)
        self._publish_scene()

    def pause(self, seconds: float) -> None:
        """Stand still as a whole, like a robot whose controller has hung."""
        self._pause_until = time.monotonic() + seconds

    def info(self) -> ServerInfo:
        """Present state."""
        return ServerInfo(
            self.world.instance.scene,
            self.world.instance.seed,
            self.world.ticks * 0.001,
            *self._rates,
            self.robot.link.connected,
            self.gripper.link.connected,
            self.robot.moving,
            self.robot.errors,
        )

    # -- the loop -------------------------------------------------------------------------------------------------
    def run(self, until: threading.Event) -> None:
        """Serve until ``until`` is set."""
        deadline = window = time.monotonic()
        window_ticks, busy = self.world.ticks, 0.0
        while not until.is_set():
            begin = time.thread_time()
            ticks = self._step()
            busy += time.thread_time() - begin
            now = time.monotonic()
            deadline = max(deadline + ticks * 0.001, now - _MAX_LAG_S)
            if deadline > now:
                time.sleep(deadline - now)
            if now - window > _WINDOW_S:
                passed = self.world.ticks - window_ticks
                self._rates = (passed * 0.001 / (now - window), 1000.0 * busy / max(passed, 1))
                window, window_ticks, busy = now, self.world.ticks, 0.0

    def _step(self) -> int:
        while not self._jobs.empty():
            self._jobs.get()()
        if self._pause_until > time.monotonic():
            time.sleep(max(0.0, self._pause_until - time.monotonic()))
        self.robot.link.poll()
        self.gripper.link.poll()
        ticks = 1 if self.robot.moving else _IDLE_TICKS - self.world.ticks % _IDLE_TICKS
        self.robot.before_step()
        self.world.advance(ticks)
        self._clock.step(self.world.ticks * 0.001)
        self.robot.after_step(ticks)
        if self.world.ticks % _IDLE_TICKS == 0:
            self.gripper.after_step()
        if self.world.ticks % _SHARE_TICKS == 0:
            self._share()
        return ticks

    def _publish_scene(self) -> None:
        self.share.set_scene(self.world.instance)
        self._share()

    def _share(self) -> None:
        self.share.write(self.world.data.qpos, self.world.ticks * 0.001, self._clock.now())

    def close(self) -> None:
        """Close the connections and the shared state."""
        self.robot.link.close()
        self.gripper.link.close()
        self.share.close()
        self._clock.close()
