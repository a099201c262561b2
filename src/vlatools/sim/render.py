"""Pictures of the scene without a screen: colour and depth in one pass, on the CPU if need be.

The renderer owns a model and data of its own and is fed with joint positions, so that drawing never touches the physics.
A GL context belongs to the thread that made it: make, use and close a renderer in one thread.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from vlatools.core import VlatoolsError
from vlatools.sim import mjcf
from vlatools.sim.scene import SceneInstance

MAX_DEPTH_M = 3.0  # beyond is no measurement


class RenderError(VlatoolsError):
    """No GL library could draw."""


class SceneRenderer:
    """Draws a scene through its camera.

    Args:
        instance: the scene; must have the objects of the joint positions that are given later.
        width, height: pixels, at most 640 x 480.

    Raises:
        RenderError: neither EGL nor OSMesa works.
    """

    def __init__(self, instance: SceneInstance, width: int = 640, height: int = 480) -> None:
        self._size = (width, height)
        self._gl = _make_context(width, height)
        self._load(instance)
        self._closed = False

    def _load(self, instance: SceneInstance) -> None:
        self.instance = instance
        self._model = mjcf.build_model(instance)
        self._data = mujoco.MjData(self._model)
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = 0
        self._option.geomgroup[mjcf.DRAWN_GROUP] = 1
        self._scene = mujoco.MjvScene(self._model, maxgeom=400)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_HAZE] = 0
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = self._model.camera(mjcf.CAMERA).id
        self._gl.make_current()
        try:
            self._context = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except mujoco.FatalError as error:
            # A driver that is there but cannot draw stays loaded and stands in the way of the other.
            raise RenderError(f"the GL library does not draw ({error}): set MUJOCO_GL=osmesa (or egl) in the environment") from error
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR  # keeps the precision at a distance
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)

    @property
    def positions(self) -> int:
        """Number of joint positions that the scene has."""
        return int(self._model.nq)

    def show(self, instance: SceneInstance) -> None:
        """Draw ``instance`` from now on."""
        if instance == self.instance:
            return
        if mjcf.same_model(instance, self.instance):
            self.instance = instance
            mjcf.adapt_model(self._model, instance)
        else:
            self._context.free()
            self._load(instance)

    def draw(self, qpos: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Picture of the state ``qpos`` (nq,).

        Returns:
            Colour uint8 (H, W, 3) RGB, and depth float32 (H, W) metres along the optical axis, NaN beyond 3 m.
        """
        model, data = self._model, self._data
        if qpos.shape != (model.nq,):
            raise ValueError(f"qpos has shape {qpos.shape}, the scene {self.instance.scene!r} has ({model.nq},)")
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        mujoco.mjv_updateScene(model, data, self._option, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene)
        width, height = self._size
        view = mujoco.MjrRect(0, 0, width, height)
        self._gl.make_current()
        mujoco.mjr_render(view, self._scene, self._context)
        color = np.empty((height, width, 3), np.uint8)
        raw = np.empty((height, width), np.float32)
        mujoco.mjr_readPixels(color, raw, view, self._context)
        near, far = (value * model.stat.extent for value in (model.vis.map.znear, model.vis.map.zfar))
        depth = np.float32(near * far) / (np.float32(far - near) * raw + np.float32(near))
        depth[depth > MAX_DEPTH_M] = np.nan
        return np.ascontiguousarray(color[::-1]), np.ascontiguousarray(depth[::-1])

    def close(self) -> None:
        """Free the GL context. Idempotent."""
        if self._closed:
            return
        self._closed = True
        # Its textures and buffers are deleted in whichever context is current.
        self._gl.make_current()
        self._context.free()
        self._gl.free()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


def _make_context(width: int, height: int) -> Any:
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    tried = []
    for name in (wanted,) if wanted in ("egl", "osmesa") else ("egl", "osmesa"):
        try:
            os.environ["PYOPENGL_PLATFORM"] = name
            context = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
            context.make_current()
            return context
        except Exception as error:  # ctypes, PyOpenGL and the driver each raise their own
            tried.append(f"{name}: {error}")
            for module in [key for key in sys.modules if key.split(".")[0] == "OpenGL" or key == f"mujoco.{name}"]:
                del sys.modules[module]  # PyOpenGL chooses its platform once, when imported
    raise RenderError(f"no GL library draws ({'; '.join(tried)}): install libegl1 libgl1-mesa-dri or libosmesa6")
