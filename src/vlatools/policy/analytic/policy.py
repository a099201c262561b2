"""The analytic policy: geometry on RGB-D instead of a learned model, behind the same port."""

from __future__ import annotations

from collections.abc import Callable

from vlatools.core import ActionSpace, Family, Invocation, Rejected
from vlatools.policy.analytic import contact, picking, placing
from vlatools.policy.analytic.config import AnalyticConfig
from vlatools.policy.analytic.job import Job, Memory
from vlatools.policy.analytic.session import StagedSession
from vlatools.policy.analytic.sight import Sight
from vlatools.policy.analytic.world import SceneFinder
from vlatools.policy.ports import Manifest, Observation

_BUILDERS: dict[Family, Callable[[Job], StagedSession]] = {
    Family.REACH: picking.reach,
    Family.GRASP: picking.grasp,
    Family.MOVE: placing.move,
    Family.RELEASE: placing.release,
    Family.PULL: contact.pull,
    Family.PUSH: contact.push,
    Family.ROTATE: contact.rotate,
}


class AnalyticPolicy:
    """Serves reach, grasp, move, release, pull, push and rotate. Implements the Policy port.

    Args:
        finder: perception; the policy looks at the first frame of an invocation and once on the way.
        config: settings.
    """

    def __init__(self, finder: SceneFinder, config: AnalyticConfig | None = None) -> None:
        self._config = config or AnalyticConfig()
        self._sight = Sight(finder, self._config)
        self._memory = Memory()
        self._manifest = Manifest(
            name="analytic",
            version="1",
            families=tuple(_BUILDERS),
            action_space=ActionSpace.EE_POSE,
            dt=self._config.dt,
            horizon=self._config.horizon,
            rate_hz=self._config.rate_hz,
            cameras=("front",),
            state_layout=("ee_pose", "gripper_width", "gripper_holding"),
        )

    @property
    def manifest(self) -> Manifest:
        """What it can do."""
        return self._manifest

    def begin(self, invocation: Invocation, observation: Observation) -> StagedSession:
        """Ground the invocation in what is seen. Raises Rejected when family or arguments cannot be served."""
        builder = _BUILDERS.get(invocation.family)
        if builder is None:
            raise Rejected("family_not_served", f"the analytic policy does not serve {invocation.family.value}")
        world = self._sight.world(observation, (invocation.object, invocation.target))
        return builder(Job(invocation, observation, world, self._sight, self._memory, self._config))
