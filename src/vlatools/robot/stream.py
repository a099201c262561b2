"""The chunk stream: action chunks in, one joint target per control period out.

Rows are reached at their times; a segment that is too fast for the arm is stretched in time, its path kept. A new chunk
continues from the last target: what it differs from it there fades over a blend time. A stream that runs out holds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from vlatools.core import ActionChunk, ActionSpace, ChunkRefused
from vlatools.core.pose import matrix_to_quat, quat_angle, quat_to_matrix, slerp
from vlatools.robot.config import ArmConfig
from vlatools.robot.limits import TargetClipper
from vlatools.robot.model import Fr3Model
from vlatools.robot.ports import StreamStatus

Vector = NDArray[np.float64]

_IK_ITERATIONS = 5
_PULL = 0.01  # towards the home posture per period
_FUTURE_S = 0.1  # a stamp may be this far ahead of the clock
_IK_POSITION, _IK_ORIENTATION = 2e-3, 1e-2  # m, rad: what the IK may leave without the target counting as clipped
_SEAM = 1e-6  # m or rad: a smaller step into a chunk needs no blending
_EDGE = 2e-3  # rad: joint targets stay this far from the guard's limit


@dataclass
class _Timeline:
    """Knots of one accepted chunk: (K,) times, (K, 7) EE poses or joints, (K,) gripper openings."""

    space: ActionSpace
    times: Vector
    values: Vector
    gripper: Vector
    blend_from: Vector  # EE_POSE: x y z and rotation vector; JOINT_POSITION: joints; fades to zero
    blend_s: float

    def at(self, t: float) -> Vector:
        """Pose or joints (7,) at time ``t``, without the blend."""
        times = self.times
        if t <= times[0]:
            return self.values[0]
        if t >= times[-1]:
            return self.values[-1]
        i = int(np.searchsorted(times, t, side="right")) - 1
        share = (t - times[i]) / (times[i + 1] - times[i])
        a, b = self.values[i], self.values[i + 1]
        if self.space is ActionSpace.JOINT_POSITION:
            return np.asarray(a + share * (b - a))
        return np.concatenate([a[:3] + share * (b[:3] - a[:3]), slerp(a[3:], b[3:], share)])

    def blended(self, t: float) -> Vector:
        """Pose or joints (7,) at time ``t``."""
        value = self.at(t)
        share = (t - self.times[0]) / self.blend_s if self.blend_s > 0 else 1.0
        if share >= 1.0:
            return value
        offset = self.blend_from * (1.0 - share * share * (3.0 - 2.0 * share))
        if self.space is ActionSpace.JOINT_POSITION:
            return np.asarray(value + offset)
        turned = pin.exp3(offset[3:]) @ quat_to_matrix(value[3:])
        return np.concatenate([value[:3] + offset[:3], matrix_to_quat(turned)])


class ChunkStream:
    """Accepts chunks and gives the joint target of every control period. Not thread-safe: the arm holds its lock."""

    def __init__(self, config: ArmConfig, clipper: TargetClipper) -> None:
        self._config = config
        self._clipper = clipper
        margin = config.limits.joint_margin + _EDGE
        self._model = Fr3Model(config.tcp_z, margin)
        self._line: _Timeline | None = None
        self._q = np.zeros(7)  # last target
        self._unreachable = False
        self._invocation = ""
        self._index = -1
        self._clips = 0
        self._refused = ""
        self._ended: deque[str] = deque(maxlen=64)

    # -- chunks in ------------------------------------------------------------------------------------------------
    def refuse(self, reason: str, message: str) -> ChunkRefused:
        """Note a refusal for the status and return it as an exception to raise."""
        self._refused = f"{reason}: {message}"
        return ChunkRefused(reason, message)

    def accept(self, chunk: ActionChunk, now: float, q_reference: Vector) -> None:
        """Take over ``chunk`` at time ``now``; ``q_reference`` (7,) is where the reference is.

        Raises:
            ChunkRefused: its invocation has ended, it is out of order, stale, or asks for a jump.
        """
        self._check_order(chunk, now)
        start = self._q if self.active(now) else q_reference
        if chunk.space is ActionSpace.EE_POSE:
            values, clipped, start_value = self._ee_rows(chunk, start)
        else:
            values, clipped, start_value = self._joint_rows(chunk, start)
        line, ahead, late = self._timeline(chunk, values, start_value, now)
        if chunk.invocation_id != self._invocation:
            if self._invocation:
                self._ended.append(self._invocation)
            self._invocation, self._clips = chunk.invocation_id, 0
        self._index = chunk.index
        self._clips += int(np.count_nonzero((clipped | late)[-max(ahead, 1) :]))
        self._refused = ""
        self._line = line
        self._q = np.array(start)

    def _check_order(self, chunk: ActionChunk, now: float) -> None:
        if chunk.invocation_id in self._ended:
            raise self.refuse(
                "ended", f"the motion of invocation {chunk.invocation_id!r} was ended: begin a new invocation"
            )
        if chunk.invocation_id == self._invocation and chunk.index <= self._index:
            raise self.refuse(
                "out_of_order",
                f"chunk {chunk.index} came after chunk {self._index}: indices must rise within an invocation",
            )
        age, limit = now - chunk.stamp_s, self._config.stream.max_age_s
        if age > limit:
            raise self.refuse(
                "stale",
                f"the chunk's observation is {age:.2f} s old, the limit is {limit:.2f} s: observe and infer again",
            )
        if age < -_FUTURE_S:
            raise self.refuse(
                "bad_stamp",
                f"the chunk's stamp lies {-age:.2f} s ahead of the clock: use the observation's monotonic time",
            )

    def _ee_rows(self, chunk: ActionChunk, start: Vector) -> tuple[Vector, NDArray[np.bool_], Vector]:
        values = chunk.actions[:, :7].copy()
        values[:, :3], clipped = self._clipper.clip(values[:, :3], values[:, 3:])
        at = self._model.matrix(start)
        return values, clipped, np.concatenate([at[:3, 3], matrix_to_quat(at[:3, :3])])

    def _joint_rows(self, chunk: ActionChunk, start: Vector) -> tuple[Vector, NDArray[np.bool_], Vector]:
        wanted = chunk.actions[:, :7]
        values = np.clip(wanted, self._model.q_min, self._model.q_max)
        return values, np.abs(values - wanted).max(axis=1) > _EDGE + 1e-6, np.array(start)

    def _step(self, space: ActionSpace, a: Vector, b: Vector) -> tuple[float, float, str]:
        """(least time, size as a share of a jump, words) of the step from ``a`` to ``b``, both (7,)."""
        speed, limits = self._config.speed, self._config.limits
        if space is ActionSpace.JOINT_POSITION:
            delta = np.abs(b - a)
            joint = int(np.argmax(delta))
            words = f"joint {joint + 1} by {delta[joint]:.2f} rad (limit {limits.jump_joint:.2f})"
            return float((delta / self._config.velocity_limits).max()), float(delta[joint]) / limits.jump_joint, words
        distance, angle = float(np.linalg.norm(b[:3] - a[:3])), quat_angle(a[3:], b[3:])
        words = f"{distance:.3f} m and {angle:.2f} rad (limits {limits.jump_position:.2f} m, {limits.jump_rotation:.2f} rad)"
        return (
            max(distance / speed.tcp, angle / speed.rotation),
            max(distance / limits.jump_position, angle / limits.jump_rotation),
            words,
        )

    def _timeline(
        self, chunk: ActionChunk, values: Vector, start: Vector, now: float
    ) -> tuple[_Timeline, int, NDArray[np.bool_]]:
        """Knots from now on, stretched where too fast; rows that lie ahead; which rows (H,) were stretched."""
        space, dt = chunk.space, chunk.dt
        due: Vector = np.asarray(chunk.stamp_s + dt * np.arange(1, chunk.horizon + 1), dtype=np.float64)
        first = int(np.searchsorted(due, now, side="right"))  # first row that lies ahead
        if first == 0:
            here = start
        else:
            whole = _Timeline(space, due, values, chunk.actions[:, 7], np.zeros(6), 0.0)
            here = whole.at(now)
        seam_s, seam, words = self._step(space, start, here)
        raw = chunk.actions[:, :7]
        if seam > 1.0:
            raise self.refuse(
                "jump", f"the chunk starts {words} away from where the arm is: start from the measured state"
            )
        times, rows, late = [now], [here], np.zeros(chunk.horizon, dtype=bool)
        for row in range(first, chunk.horizon):
            ahead = float(due[row]) - (now if row == first else float(due[row - 1]))
            before = (here if row == first else raw[row - 1]) if row > 0 else start
            wanted, size, words = self._step(space, before, raw[row])
            least, _, _ = self._step(space, rows[-1], values[row])
            # A long step is a jump only if it could not be a slow motion over the time given.
            if size > 1.0 and wanted > 1.5 * ahead:
                raise self.refuse(
                    "jump", f"row {row} of the chunk steps {words} in {ahead:.2f} s: smaller steps or a larger dt"
                )
            late[row] = least > ahead * 1.05
            times.append(times[-1] + max(ahead, least, 1e-3))
            rows.append(values[row])
        if space is ActionSpace.JOINT_POSITION:
            offset = start - here
        else:
            turn = quat_to_matrix(start[3:]) @ quat_to_matrix(here[3:]).T
            offset = np.concatenate([start[:3] - here[:3], pin.log3(turn)])
        column = chunk.actions[:, 7]
        gripper = column[first - 1 :] if first > 0 else np.concatenate([column[:1], column])
        blend_s = max(self._config.stream.blend_s, 1.5 * seam_s) if np.abs(offset).max() > _SEAM else 0.0
        line = _Timeline(space, np.array(times), np.array(rows), gripper, offset, blend_s)
        return line, chunk.horizon - first, late

    # -- targets out ----------------------------------------------------------------------------------------------
    def target(self, now: float) -> tuple[Vector, Vector]:
        """Joint target (7,) rad and its velocity (7,) rad/s at the end of the period that begins ``now``."""
        assert self._line is not None
        line, ahead = self._line, self._config.stream.lookahead_s
        t = now + self._config.period_s
        here, there = line.blended(t), line.blended(t + ahead)
        if line.space is ActionSpace.JOINT_POSITION:
            self._q = here
            return here, (there - here) / ahead
        goal = np.eye(4)
        goal[:3, :3], goal[:3, 3] = quat_to_matrix(here[3:]), here[:3]
        moving = t < line.times[-1]
        before = self._q
        found = self._model.ik(goal, before, self._config.home if moving else None, _PULL, iterations=_IK_ITERATIONS)
        self._q = found.q
        unreachable = found.position_error > _IK_POSITION or found.orientation_error > _IK_ORIENTATION
        if unreachable and not self._unreachable:
            self._clips += 1
        self._unreachable = unreachable
        if not moving:
            return found.q, np.zeros(7)
        twist = np.concatenate([there[:3] - here[:3], pin.log3(quat_to_matrix(there[3:]) @ quat_to_matrix(here[3:]).T)])
        jacobian = self._model.jacobian(found.q)
        # Of the solution's own motion only the part that does not move the TCP: the drift towards the posture.
        drift = (found.q - before) / self._config.period_s
        return found.q, drift + self._model.inverse_step(jacobian, twist / ahead - jacobian @ drift)

    def gripper(self, now: float) -> float:
        """Opening that the current row asks for, m."""
        assert self._line is not None
        index = min(int(np.searchsorted(self._line.times, now, side="right")), len(self._line.gripper) - 1)
        return float(self._line.gripper[index])

    # -- life -----------------------------------------------------------------------------------------------------
    def active(self, now: float) -> bool:
        """Targets are left, or ran out less than the linger time ago."""
        return self._line is not None and now <= self._line.times[-1] + self._config.stream.linger_s

    def ran_out(self, now: float) -> bool:
        """The last row's time has passed."""
        return self._line is None or now >= self._line.times[-1]

    def end(self, reason: str = "", message: str = "") -> None:
        """Void what is left; no chunk of this invocation is accepted any more. Idempotent."""
        if self._invocation and self._invocation not in self._ended:
            self._ended.append(self._invocation)
            if reason:
                self._refused = f"{reason}: {message}"
        self._line = None
        self._unreachable = False

    def count_clip(self) -> None:
        """Count one intervention of the guards."""
        self._clips += 1

    def status(self, now: float) -> StreamStatus:
        """Status for the arm's state."""
        remaining = max(0.0, float(self._line.times[-1]) - now) if self._line is not None else 0.0
        return StreamStatus(self._invocation, self._index, remaining, self._clips, self._refused)
