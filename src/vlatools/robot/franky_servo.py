"""The FR3 through franky: follows the joint reference with a joint impedance controller.

One thread does all the reading and, between two references of the control loop, feeds the 1 kHz impedance controller a
smooth interpolation at 250 Hz. References run on the robot's own clock, so that a host or a simulation that stalls never
finds a reference that has run ahead. Calls that may hang (connecting) run in a thread of their own with a bounded wait.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial

import franky
import numpy as np
from numpy.typing import NDArray

from vlatools.core import ArmFault, Clock, Pose
from vlatools.robot import fr3
from vlatools.robot.config import ArmConfig
from vlatools.robot.model import Fr3Model
from vlatools.robot.ports import RobotState

Vector = NDArray[np.float64]

_LOG = logging.getLogger(__name__)
_FEED_S = 0.004  # period of the interpolated reference
_AHEAD_S = 0.005  # the robot's clock is taken to run on for so long after the last packet
_STOP_S = 3.0  # franky's torque stop ends within 2 s
_ERROR_NAMES = tuple(name for name in dir(franky.Errors) if not name.startswith("_"))
# What franky raises when the robot is gone; after that its object is dead.
_GONE = (franky.NetworkException, franky.ProtocolException, RuntimeError)


class FrankyServo:
    """Implements ``JointServo``. Begins disconnected: the arm's controller connects by ``reconnect``.

    Args:
        host: the robot's address.
        config: gains, collision behaviour, load, TCP; set on the robot at every connection.
        clock: stamps; the host's monotonic clock, or the simulation's.
        realtime: demand a real-time kernel, as a lab machine should.
    """

    def __init__(self, host: str, config: ArmConfig, clock: Clock, realtime: bool = False) -> None:
        self._host = host
        self._config = config
        self._clock = clock
        self._realtime = franky.RealtimeConfig.Enforce if realtime else franky.RealtimeConfig.Ignore
        self._model = Fr3Model(config.tcp_z)
        self._lock = threading.Lock()  # the robot's object: one call at a time that is not a read in motion
        self._robot: franky.Robot | None = None
        self._tracker: franky.JointImpedanceTracker | None = None
        self._reference: tuple[float, Vector, Vector, Vector, Vector] | None = None  # begin, q0, v0, q1, v1
        self._state: RobotState | None = None
        self._robot_time = -1.0
        self._robot_time_read = -1.0  # when, on our clock
        self._time_lock = threading.Lock()
        self._time_shown = -1.0  # what robot_time() has told: it never goes back on one connection
        self._failure: ArmFault | None = ArmFault("disconnected", f"not connected to {host} yet")
        self._attempt: queue.Queue[franky.Robot | Exception] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._io_loop, daemon=True, name="franky-io")
        self._thread.start()

    # -- JointServo -----------------------------------------------------------------------------------------------
    def read(self) -> RobotState:
        """Newest state. Raises ArmFault(``disconnected``)."""
        failure, state = self._failure, self._state
        if failure is not None:
            raise failure
        if state is None:
            raise ArmFault("disconnected", f"no state from {self._host} yet")
        return state

    def start(self) -> None:
        """Begin following from the current position. Raises ArmFault."""
        with self._lock:
            robot = self._connected()
            self._reference = None
            try:
                if not robot.is_in_control:  # else the new motion takes over from a stop that is under way
                    self._join(robot)
                self._tracker = self._new_tracker(robot)
            except franky.ControlException as error:
                _LOG.info("the motion before ended with: %s", error)  # between the question and the start
                self._tracker = self._new_tracker(robot)
            except (franky.Exception, *_GONE) as error:
                raise self._fault("start_failed", error) from error
            self._read(robot)

    def command(self, q: Vector, dq: Vector) -> None:
        """Set the reference at the end of the control period that begins now. Raises ArmFault when the motion died."""
        tracker = self._tracker
        if self._failure is not None:
            raise self._failure
        if tracker is None:
            raise ArmFault("not_started", "command before start")
        if not tracker.is_running:
            with self._lock:
                self._tracker, self._reference = None, None
                robot = self._connected()
                try:
                    robot.join_motion(timeout=0.05)
                    message = "the motion ended by itself"
                except Exception as error:  # franky throws what ended the motion
                    message = str(error)
            raise ArmFault("reflex" if "reflex" in message else "control_exception", message, self._errors())
        last = self._reference
        begin_q, begin_v = (last[3], last[4]) if last is not None else (np.array(q), np.zeros(7))
        self._reference = (self.robot_time(), begin_q, begin_v, np.array(q), np.array(dq))

    def robot_time(self) -> float:
        """Seconds on the robot's own clock, carried on a little after the last packet. Never goes back on one connection: a robot
        that is slower than foreseen is waited for, or the reference would be advanced twice in the same time."""
        with self._time_lock:
            time = self._robot_time + min(_AHEAD_S, max(0.0, self._clock.now() - self._robot_time_read))
            self._time_shown = max(self._time_shown, time)
            return self._time_shown

    def halt(self) -> None:
        """Begin the smooth torque stop; returns at once. Safe at any time, in any state, repeatedly."""
        with self._lock:
            self._tracker, self._reference = None, None
            robot = self._robot
            if robot is None or self._failure is not None:
                return
            try:
                if robot.is_in_control:
                    robot.move(franky.TorqueStopMotion(), asynchronous=True)
            except Exception as error:  # the motion may have died in between; then it has stopped already
                _LOG.warning("halt: %s", error)

    def recover(self) -> None:
        """Clear the robot's errors. Raises ArmFault when they stay."""
        with self._lock:
            robot = self._connected()
            self._join(robot)
            try:
                cleared = robot.recover_from_errors()
            except (franky.Exception, *_GONE) as error:
                raise self._fault("not_cleared", error) from error
            if not cleared:
                raise ArmFault("not_cleared", "the robot refused to recover: look at Franka Desk", self._errors())

    def reconnect(self) -> None:
        """Make a new connection. Raises ArmFault(``disconnected``) when the robot does not answer in time."""
        timeout = self._config.robot.connect_timeout_s
        with self._lock:
            old, self._robot, self._tracker, self._reference = self._robot, None, None, None
        if old is not None:
            _in_thread(partial(_forget, old))  # its destructor may wait for the dead connection
            del old
        if self._attempt is None:
            # franky.Robot(...) can hang for ever when another client holds the robot; such an attempt is kept and
            # asked again next time, since it would hold the robot if it got through later.
            attempt: queue.Queue[franky.Robot | Exception] = queue.Queue()
            self._attempt = attempt
            _in_thread(lambda: attempt.put(self._open()))
        try:
            robot = self._attempt.get(timeout=timeout)
        except queue.Empty:
            raise ArmFault(
                "disconnected",
                f"{self._host} did not answer within {timeout:.1f} s: check the address and FCI, "
                "and that no other program is connected (the robot takes one client)",
            ) from None
        self._attempt = None
        if isinstance(robot, Exception):
            raise ArmFault("disconnected", f"no connection to {self._host}: {robot}") from robot
        try:
            self._configure(robot)
        except (franky.Exception, *_GONE) as error:
            raise ArmFault("disconnected", f"{self._host} refused its configuration: {error}") from error
        with self._lock:
            self._robot, self._state, self._failure = robot, None, None
            with self._time_lock:
                self._robot_time, self._time_shown = -1.0, -1.0
            self._read(robot)

    def close(self) -> None:
        """Stop and release the robot."""
        self.halt()
        self._closed.set()
        self._thread.join(timeout=2.0)
        with self._lock:
            if self._robot is not None and self._failure is None:
                self._join(self._robot)
            self._robot = None

    # -- inside ---------------------------------------------------------------------------------------------------
    def _open(self) -> franky.Robot | Exception:
        try:
            return franky.Robot(self._host, realtime_config=self._realtime)
        except Exception as error:  # told to whoever waits
            return error

    def _configure(self, robot: franky.Robot) -> None:
        """Collision behaviour, load and TCP are configuration, not what Franka Desk happens to have."""
        settings = self._config.robot
        robot.set_collision_behavior(settings.collision_torque, settings.collision_force)
        robot.set_load(settings.load_mass, list(settings.load_center), np.diag(settings.load_inertia).ravel().tolist())
        state = robot.state
        hand = Pose.identity().matrix
        cos, sin = np.cos(fr3.HAND_YAW), np.sin(fr3.HAND_YAW)
        hand[:2, :2] = [[cos, -sin], [sin, cos]]
        hand[2, 3] = self._config.tcp_z
        nominal = np.asarray(state.F_T_NE.matrix)
        robot.set_ee((np.linalg.inv(nominal) @ hand).T.ravel().tolist())  # column-major
        _LOG.info(
            "connected to %s: TCP %.4f m beyond the hand's frame, load %.2f kg, reflex at %.0f N m and %.0f N",
            self._host,
            self._config.tcp_z,
            settings.load_mass,
            settings.collision_torque,
            settings.collision_force,
        )

    def _connected(self) -> franky.Robot:
        if self._failure is not None:
            raise self._failure
        if self._robot is None:
            raise ArmFault("disconnected", f"no connection to {self._host}")
        return self._robot

    def _join(self, robot: franky.Robot) -> None:
        """Wait for the end of the motion before; what it died of is history."""
        try:
            if not robot.join_motion(timeout=_STOP_S):
                robot.stop()
        except Exception as error:
            _LOG.info("the motion before ended with: %s", error)

    def _new_tracker(self, robot: franky.Robot) -> franky.JointImpedanceTracker:
        gains = self._config.robot
        return franky.JointImpedanceTracker(robot, stiffness=np.array(gains.stiffness), damping=np.array(gains.damping))

    def _fault(self, reason: str, error: Exception) -> ArmFault:
        if isinstance(error, franky.NetworkException | franky.ProtocolException):
            return self._lost(error)
        return ArmFault(reason, str(error), self._errors())

    def _lost(self, error: Exception) -> ArmFault:
        self._failure = ArmFault("disconnected", f"the connection to {self._host} was lost: {error}")
        return self._failure

    def _errors(self) -> tuple[str, ...]:
        return self._state.errors if self._state is not None else ()

    def _io_loop(self) -> None:
        while not self._closed.wait(_FEED_S):
            robot = self._robot
            if robot is None or self._failure is not None:
                continue
            # Recovery and starting hold the lock for long: skip the reading, the state gets old, as it should.
            if self._lock.acquire(blocking=False):
                try:
                    self._read(robot)
                finally:
                    self._lock.release()
            self._feed()

    def _feed(self) -> None:
        tracker, reference = self._tracker, self._reference
        if tracker is None or reference is None:
            return
        begin, q0, v0, q1, v1 = reference
        period = self._config.period_s
        elapsed = self.robot_time() - begin
        u = min(1.0, max(0.0, elapsed / period))
        if u >= 1.0:  # no newer reference came: hold, do not run on
            late = elapsed > 1.5 * period
            q, dq = q1, np.zeros(7) if late else v1
        else:
            c2, c3 = 3 * (q1 - q0) - period * (2 * v0 + v1), 2 * (q0 - q1) + period * (v0 + v1)
            q = q0 + u * (period * v0 + u * (c2 + u * c3))
            dq = v0 + u * (2 * c2 + 3 * u * c3) / period
        try:
            tracker.set_target(q, dq)
        except Exception as error:  # the control loop finds out by is_running
            _LOG.info("reference not taken: %s", error)

    def _read(self, robot: franky.Robot) -> None:
        try:
            state = robot.state
        except Exception as error:
            _LOG.warning("reading the state: %s", error)
            self._lost(error)
            return
        time = state.time.to_sec()
        if time == self._robot_time:
            return  # the same packet again: its stamp stays what it was
        with self._time_lock:
            self._robot_time, self._robot_time_read = time, self._clock.now()
        q = np.array(state.q)
        mode = state.robot_mode
        errors = state.current_errors
        self._state = RobotState(
            stamp_s=self._clock.now(),
            q=q,
            dq=np.array(state.dq),
            tau_ext=np.array(state.tau_ext_hat_filtered),
            ee=Pose.from_matrix(self._model.matrix(q)),
            wrench=np.array(state.O_F_ext_hat_K),
            errors=tuple(name for name in _ERROR_NAMES if getattr(errors, name)),
            user_stopped=mode in (franky.RobotMode.UserStopped, franky.RobotMode.Guiding),
            reflex=mode is franky.RobotMode.Reflex or mode == franky.RobotMode.Reflex,
            in_control=robot.is_in_control,
            success_rate=float(state.control_command_success_rate),
        )


def _in_thread(work: Callable[[], object]) -> None:
    threading.Thread(target=work, daemon=True, name="franky-connect").start()


def _forget(robot: franky.Robot) -> None:
    """Drop the last reference to a robot, in the thread that may wait for it."""
    del robot
