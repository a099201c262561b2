"""The renderer of the served simulation's camera: draws what the simulation shares, in the camera's own process."""

from __future__ import annotations

from vlatools.sim.d435 import Picture
from vlatools.sim.render import SceneRenderer
from vlatools.sim.state_share import SharedState, StateReader


class SharedRenderer:
    """Implements ``d435.Renderer``. Make, use and close it in one thread.

    Args:
        domain: the simulation's ``--domain``.
    """

    def __init__(self, domain: str = "default") -> None:
        self._reader = StateReader(domain)
        self._renderer: SceneRenderer | None = None
        self._generation = -1

    def render(self) -> Picture | None:
        """Picture of the newest state; None while no simulation runs or its camera is frozen."""
        state = self._reader.read()
        if state is None or state.camera_frozen:
            return None
        renderer = self._follow(state)
        if renderer is None:
            return None
        color, depth = renderer.draw(state.qpos)
        return Picture(state.lab_s, color, depth)

    def close(self) -> None:
        """Free the GL context."""
        self._reader.close()
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _follow(self, state: SharedState) -> SceneRenderer | None:
        """The renderer, with the scene that ``state`` belongs to; None while the two do not fit yet."""
        if self._renderer is None:
            self._renderer = SceneRenderer(self._reader.scene())
        elif state.generation != self._generation:
            self._renderer.show(self._reader.scene())
        self._generation = state.generation
        if state.qpos.size != self._renderer.positions:
            self._generation = -1  # the scene changed between the two reads
            return None
        return self._renderer
