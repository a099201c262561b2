"""Follows the true state of a simulated trial for the judge: the only reader of ground truth beside tests."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from vlatools.sim.control import SimControl, SimControlError
from vlatools.sim.world import Truth
from vlatools.trials.judge import BodyTruth, StageTracker, TruthSample, Verdict
from vlatools.trials.success import SuccessSpec

SAMPLE_S = 0.1
_AFTER_S = 1.5  # a final state has to hold at rest for a second


def truth_sample(truth: Truth) -> TruthSample:
    """The judge's form of the world's truth."""
    return TruthSample(
        stamp_s=truth.time_s,
        bodies={
            name: BodyTruth(pose=o.pose, size=o.size, speed=float((o.velocity @ o.velocity) ** 0.5), category=o.kind.value)
            for name, o in truth.objects.items()
        },
        held=frozenset(name for name, o in truth.objects.items() if o.held),
    )


class TruthJudge:
    """Context manager that samples a served simulation in a thread and gives the verdict.

    Raises:
        SimControlError: the simulation does not answer at the start.
    """

    def __init__(self, control: SimControl, spec: SuccessSpec) -> None:
        self._control = control
        self._tracker = StageTracker(spec, truth_sample(control.truth()))
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="truth", daemon=True)

    def __enter__(self) -> TruthJudge:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        self._thread.join(timeout=10.0)

    def verdict(self, claimed: bool) -> Verdict:
        """The judgement of the final state, after it has had the time to come to rest."""
        time.sleep(_AFTER_S)
        with self._lock:
            return self._tracker.verdict(claimed)

    def _follow(self) -> None:
        while not self._end.wait(SAMPLE_S):
            try:
                sample = truth_sample(self._control.truth())
            except SimControlError:
                continue  # a paused or restarting simulation; a gap in the samples breaks a hold
            with self._lock:
                self._tracker.feed(sample)
