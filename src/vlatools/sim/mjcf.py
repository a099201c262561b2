"""The MuJoCo model of a scene: franky-sim's FR3, a table, cubes and bowls, and the camera.

One model for served and lock-step mode, and for the picture; only what drives the arm differs (:mod:`vlatools.sim.world`).
"""

from __future__ import annotations

import importlib.util
import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np

from vlatools.camera.ports import Intrinsics
from vlatools.core.pose import matrix_to_quat, quat_multiply
from vlatools.robot import fr3
from vlatools.sim.scene import (
    BOWL_FLOOR_RADIUS,
    BOWL_HEIGHT,
    BOWL_INNER_RADIUS,
    BOWL_WALL,
    COLORS,
    Kind,
    ObjectInstance,
    SceneInstance,
)

TIMESTEP = 0.001
CAMERA = "d435"
CAMERA_FOVY_DEG = 42.5
ARM_GROUP = 1  # actuator group of the arm's impedance drive
DRAWN_GROUP, HIDDEN_GROUP = 0, 4  # geom groups
FINGER_STIFFNESS = 5000.0  # N/m of one finger's position servo
FINGER_DAMPING = 60.0
_BOARDS = 16
# Visual meshes of few faces, drawn as they are; the links are drawn by their collision meshes, at a fifth of the cost.
_CHEAP_MESHES = (
    "hand_0", "hand_1", "hand_2", "hand_3", "hand_4", "finger_0", "finger_1",
)  # fmt: skip
_HARD = {"solref": "0.004 1", "solimp": "0.95 0.99 0.0005"}  # 40 N press in by 0.2 mm
_LIGHTS = (0.42, 0.26)  # power of the two lamps
_AMBIENT, _HEADLIGHT = 0.34, 0.12
# Collision bits: what a geom is, and what it meets. The robot does not meet itself: guarding that is the controller's.
_TABLE, _ROBOT, _OBJECT = 1, 2, 4


def body_name(thing: str) -> str:
    """Name of an object's body in the model."""
    return f"object:{thing}"


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{float(value):.9g}" for value in values)


def _assets() -> Path:
    spec = importlib.util.find_spec("franky_sim")
    if spec is None or spec.origin is None:
        raise ImportError("franky-sim is not installed: run `make setup`")
    return Path(spec.origin).parent / "assets"


def build_mjcf(instance: SceneInstance) -> str:
    """MJCF text of ``instance``."""
    assets = _assets()
    root = ET.parse(assets / "fr3.xml").getroot()
    root.set("model", f"vlatools {instance.scene}")
    _child(root, "compiler").set("meshdir", str(assets / "meshes"))
    _child(root, "option").attrib.update(
        timestep=str(TIMESTEP), cone="elliptic", impratio="10", integrator="implicitfast", iterations="30", tolerance="1e-7"
    )
    for name in ("actuator", "tendon", "keyframe"):
        root.remove(_child(root, name))
    _robot(root)
    _looks(root)
    world = _child(root, "worldbody")
    _table(world)
    for thing in instance.objects:
        _object(world, thing)
    ET.SubElement(world, "camera", name=CAMERA, fovy=str(CAMERA_FOVY_DEG))
    return ET.tostring(root, encoding="unicode")


def build_model(instance: SceneInstance) -> mujoco.MjModel:
    """Compiled model of ``instance``."""
    model = mujoco.MjModel.from_xml_string(build_mjcf(instance))
    adapt_model(model, instance)
    return model


def adapt_model(model: mujoco.MjModel, instance: SceneInstance) -> None:
    """Set what instances of equal objects differ in: camera, light and table. Object poses are state, not model."""
    camera = model.camera(CAMERA)
    x, y, z, w = matrix_to_quat(instance.camera_to_base.rotation @ np.diag([1.0, -1.0, -1.0]))  # it looks along -z
    camera.pos[:], camera.quat[:] = instance.camera_position, (w, x, y, z)
    model.light_diffuse[:] = instance.light * np.array(_LIGHTS)[:, None]
    model.vis.headlight.ambient[:] = _AMBIENT * instance.light
    model.vis.headlight.diffuse[:] = _HEADLIGHT * instance.light
    model.geom("table").rgba[:3] = (instance.table, instance.table, 0.985 * instance.table)


def camera_intrinsics(width: int = 640, height: int = 480) -> Intrinsics:
    """Pinhole of the camera: square pixels, the axis through the middle of the image."""
    focal = height / 2 / math.tan(math.radians(CAMERA_FOVY_DEG) / 2)
    return Intrinsics(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)


def same_model(a: SceneInstance, b: SceneInstance) -> bool:
    """Whether one compiled model serves both instances."""

    def key(instance: SceneInstance) -> list[tuple[object, ...]]:
        return [(thing.name, thing.kind, thing.color, thing.size, thing.mass) for thing in instance.objects]

    return key(a) == key(b)


def _child(parent: ET.Element, tag: str) -> ET.Element:
    found = parent.find(tag)
    if found is None:
        raise ValueError(f"<{tag}> is missing in franky-sim's fr3.xml: is it version 1.0.4?")
    return found


def _robot(root: ET.Element) -> None:
    """Collision bits, gravity compensation, finger pads that hold, and the drives."""
    for body in _child(root, "worldbody").iter("body"):
        body.set("gravcomp", "1")
        name = body.get("name", "")
        hand = name in ("hand", "left_finger", "right_finger")
        for joint in body.findall("joint"):
            if joint.get("class") == "finger":
                joint.attrib.update(armature="0.1", damping="2", frictionloss="0.3")
        for geom in body.findall("geom"):
            kind = geom.get("class", "")
            if kind == "visual" and geom.get("mesh") in _CHEAP_MESHES:
                geom.set("group", str(DRAWN_GROUP))
            if kind == "collision":
                geom.set("contype", str(_ROBOT))
                geom.set("conaffinity", str(_TABLE | _OBJECT))
                geom.set("group", str(HIDDEN_GROUP if hand else DRAWN_GROUP))
                geom.set("rgba", "0.93 0.94 0.95 1" if name != "fr3_link7" else "0.30 0.31 0.33 1")
            if kind.startswith("fingertip"):
                body.remove(geom)
        if name.endswith("_finger"):
            # One pad in place of franky-sim's four small ones and their backing: the same face, a quarter of the contacts.
            # Rubber: its friction and torsional friction hold, whatever it touches.
            pad = {"contype": str(_ROBOT), "conaffinity": str(_TABLE | _OBJECT), "group": str(HIDDEN_GROUP), "mass": "0"}
            friction = {"friction": "1.5 0.02 0.0001", "condim": "4", "priority": "1", **_HARD}
            ET.SubElement(body, "geom", {**pad, **friction}, type="box", size="0.0085 0.002 0.0085", pos="0 0.002 0.0445")
    drives = ET.SubElement(root, "actuator")
    for index in range(1, fr3.DOF + 1):
        common = {"joint": f"fr3_joint{index}", "group": str(ARM_GROUP)}
        ET.SubElement(drives, "general", common, name=f"stiffness{index}", gainprm="1", biasprm="0 -1 0", biastype="affine")
        ET.SubElement(drives, "general", common, name=f"damping{index}", gainprm="1", biasprm="0 0 -1", biastype="affine")
    for index in (1, 2):
        ET.SubElement(
            drives,
            "general",
            name=f"finger{index}",
            joint=f"finger_joint{index}",
            dyntype="integrator",
            gainprm=str(FINGER_STIFFNESS),
            biastype="affine",
            biasprm=f"0 -{FINGER_STIFFNESS} -{FINGER_DAMPING}",
            actlimited="true",
            actrange="-0.04 0.04",
            forcelimited="true",
            forcerange="-70 70",
        )


def _looks(root: ET.Element) -> None:
    """Rendering without what costs most on a CPU: no shadow, no multi-sampling. Brightness is set by ``adapt_model``."""
    visual = ET.SubElement(root, "visual")
    ET.SubElement(visual, "quality", shadowsize="0", offsamples="0", numslices="40", numstacks="12")
    ET.SubElement(visual, "global", offwidth="640", offheight="480")
    ET.SubElement(visual, "map", znear="0.05", zfar="4")
    ET.SubElement(visual, "headlight", specular="0 0 0")
    ET.SubElement(root, "statistic", extent="1", center="0.5 0 0.2")
    world = _child(root, "worldbody")
    for pos, shine in (((0.45, 0.75, 1.6), 0.12), ((1.30, -0.80, 1.3), 0.05)):
        direction = np.array([0.5, 0.0, 0.0]) - np.array(pos)
        ET.SubElement(
            world,
            "light",
            pos=_numbers(pos),
            dir=_numbers(direction / np.linalg.norm(direction)),
            type="directional",
            castshadow="false",
            specular=_numbers([shine] * 3),
        )


def _table(world: ET.Element) -> None:
    ET.SubElement(
        world,
        "geom",
        name="table",
        type="box",
        size="0.62 0.7 0.02",
        pos="0.38 0 -0.02",
        contype="0",
        conaffinity="0",
        group=str(DRAWN_GROUP),
    )
    # Contacts are with a plane: cheaper than a box, and nothing falls through its edge.
    ET.SubElement(
        world,
        "geom",
        name="table_plane",
        type="plane",
        size="1 1 0.1",
        contype=str(_TABLE),
        conaffinity=str(_ROBOT | _OBJECT),
        group=str(HIDDEN_GROUP),
        friction="0.6 0.005 0.0001",
    )


def _object(world: ET.Element, thing: ObjectInstance) -> None:
    # Where it stands is state, not model: instances of equal objects share a model bit for bit.
    body = ET.SubElement(world, "body", name=body_name(thing.name))
    ET.SubElement(body, "freejoint", name=f"joint:{thing.name}")
    common = {
        "rgba": _numbers((*COLORS[thing.color], 1.0)),
        "friction": "0.6 0.005 0.0001",
        "contype": str(_OBJECT),
        "conaffinity": str(_TABLE | _ROBOT | _OBJECT),
        "group": str(DRAWN_GROUP),
    }
    if thing.kind is Kind.CUBE:
        ET.SubElement(body, "geom", common, type="box", size=_numbers([thing.size / 2] * 3), mass=f"{thing.mass:.6f}")
    else:
        _bowl(body, thing.mass, common)


def _bowl(body: ET.Element, mass: float, common: dict[str, str]) -> None:
    """Origin in the middle of the bounding box; a quarter of the mass in the floor."""
    half = BOWL_WALL / 2
    ET.SubElement(
        body,
        "geom",
        common,
        type="cylinder",
        size=_numbers((BOWL_FLOOR_RADIUS + half, half)),
        pos=_numbers((0, 0, half - BOWL_HEIGHT / 2)),
        mass=f"{mass / 4:.6f}",
    )
    spread = BOWL_INNER_RADIUS - BOWL_FLOOR_RADIUS
    tilt = math.atan2(spread, BOWL_HEIGHT)
    # The boards stop short of the table, so that a standing bowl rests on its floor alone.
    lift = BOWL_WALL * math.sin(tilt) / 2
    length = math.hypot(spread, BOWL_HEIGHT) - 2 * lift
    middle = (BOWL_INNER_RADIUS + BOWL_FLOOR_RADIUS) / 2 + half
    width = (BOWL_INNER_RADIUS + BOWL_WALL) * math.tan(math.pi / _BOARDS) + 0.0008
    for index in range(_BOARDS):
        angle = 2 * math.pi * index / _BOARDS
        turn = (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2))
        x, y, z, w = quat_multiply(turn, (0.0, math.sin(tilt / 2), 0.0, math.cos(tilt / 2)))
        ET.SubElement(
            body,
            "geom",
            common,
            type="box",
            size=_numbers((half, width, length / 2)),
            pos=_numbers((middle * math.cos(angle), middle * math.sin(angle), 0.0005)),
            quat=_numbers((w, x, y, z)),
            mass=f"{0.75 * mass / _BOARDS:.6f}",
        )
