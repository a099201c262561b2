"""A session: the stages of one invocation, run one after the other, with measured progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vlatools.policy.analytic.config import AnalyticConfig
from vlatools.policy.analytic.path import tool_vector
from vlatools.policy.analytic.stages import Anchor, Stage
from vlatools.policy.ports import Observation, PolicyOutput

_UNMET = 0.88  # progress stays at or below this until the last stage is met


class StagedSession:
    """Implements PolicySession by stages.

    Args:
        stages: at least one.
        config: settings.
        measure: numbers to report beside progress, from an observation.
        on_met: called once when the last stage is met.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        config: AnalyticConfig,
        measure: Callable[[Observation], Mapping[str, float]] | None = None,
        on_met: Callable[[Observation], None] | None = None,
    ) -> None:
        self._stages = list(stages)
        self._config = config
        self._measure = measure
        self._on_met = on_met
        self._index = 0
        self._entered = False
        self._met = False

    def needs_frame(self) -> bool:
        """Only where the running stage looks."""
        return self._entered and not self._met and self._stages[self._index].needs_frame()

    def infer(self, observation: Observation) -> PolicyOutput:
        """Judge the running stage, go on to the next when it is met, command it."""
        share, failed = 1.0, ""
        while not self._met:
            stage = self._stages[self._index]
            if not self._entered:
                stage.enter(observation, self._anchor(observation))
                self._entered = True
            step = stage.step(observation)
            share, failed = step.share, step.failed
            if step.then:
                self._stages[self._index + 1 : self._index + 1] = step.then
            if not step.done:
                break
            if self._index + 1 == len(self._stages):
                self._met = True
                if self._on_met is not None:
                    self._on_met(observation)
            else:
                self._index += 1
                self._entered = False
        stage = self._stages[self._index]
        times = observation.stamp_s + self._config.dt * np.arange(1.0, self._config.horizon + 1)
        measured = dict(self._measure(observation)) if self._measure is not None else {}
        return PolicyOutput(
            actions=stage.rows(times),
            progress=1.0 if self._met else self._progress(share),
            phase="done" if self._met else stage.phase,
            failed=failed,
            measurements=measured,
        )

    def close(self) -> None:
        """Nothing is kept open."""

    def _progress(self, share: float) -> float:
        weights = [stage.weight for stage in self._stages]
        done = sum(weights[: self._index]) + weights[self._index] * share
        return min(_UNMET, 0.95 * done / sum(weights))

    def _anchor(self, observation: Observation) -> Anchor:
        """Where the stage before left the tool; at first, where it is measured."""
        if self._index > 0:
            return self._stages[self._index - 1].anchor()
        arm = observation.arm
        opening = 0.0 if arm.gripper_holding else arm.gripper_width  # 0 keeps the grip's force on
        return Anchor(tool_vector(arm.ee), opening if math.isfinite(opening) else 0.08)
