"""Images, camera models and clouds: messages to and from arrays, with one copy of the pixels."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from sensor_msgs.msg import CameraInfo, Image, PointCloud2, PointField
from std_msgs.msg import Header

from vlatools.camera.ports import Intrinsics
from vlatools.core import Rejected
from vlatools.nodes.convert import BASE_FRAME

_ENCODINGS: dict[str, tuple[type[np.generic], int]] = {
    "rgb8": (np.uint8, 3),
    "bgr8": (np.uint8, 3),
    "mono8": (np.uint8, 1),
    "16UC1": (np.uint16, 1),
    "32FC1": (np.float32, 1),
}


def image_to_msg(image: NDArray[Any], encoding: str, stamp: Time, frame_id: str) -> Image:
    """Image message of (H, W) or (H, W, 3); the pixels are copied once."""
    kind, channels = _ENCODINGS[encoding]
    pixels = np.ascontiguousarray(image, dtype=kind)
    rows, cols = pixels.shape[:2]
    data = array.array("B")
    data.frombytes(pixels.view(np.uint8).data.cast("B"))  # array.array is what the setter takes without a check per byte
    return Image(
        header=Header(stamp=stamp, frame_id=frame_id),
        height=rows,
        width=cols,
        encoding=encoding,
        is_bigendian=0,
        step=cols * channels * pixels.itemsize,
        data=data,
    )


def image_from_msg(msg: Image) -> NDArray[Any]:
    """(H, W) or (H, W, 3) view of a message's pixels; bgr8 is converted to RGB.

    Raises:
        Rejected: an encoding that is not known; names those that are.
    """
    if msg.encoding not in _ENCODINGS:
        raise Rejected("bad_encoding", f"image encoding {msg.encoding!r} is unknown, it must be one of {', '.join(_ENCODINGS)}")
    kind, channels = _ENCODINGS[msg.encoding]
    shape = (msg.height, msg.width, channels) if channels > 1 else (msg.height, msg.width)
    image: NDArray[Any] = np.frombuffer(msg.data, dtype=kind).reshape(shape)
    return image[..., ::-1] if msg.encoding == "bgr8" else image


def camera_info(intrinsics: Intrinsics, stamp: Time, frame_id: str) -> CameraInfo:
    """CameraInfo message of a rectified pinhole image."""
    k = intrinsics.matrix
    return CameraInfo(
        header=Header(stamp=stamp, frame_id=frame_id),
        height=intrinsics.height,
        width=intrinsics.width,
        distortion_model="plumb_bob",
        d=list(intrinsics.distortion),
        k=k.ravel(),
        r=np.eye(3).ravel(),
        p=np.hstack([k, np.zeros((3, 1))]).ravel(),
    )


def intrinsics_from_msg(msg: CameraInfo) -> Intrinsics:
    """Intrinsics of a CameraInfo."""
    return Intrinsics(
        width=msg.width, height=msg.height, fx=msg.k[0], fy=msg.k[4], cx=msg.k[2], cy=msg.k[5], distortion=tuple(msg.d)
    )


def points_to_msg(points: NDArray[np.float32], stamp: Time) -> PointCloud2:
    """Organised cloud of (H, W, 3) metres in fr3_link0, NaN where unknown."""
    rows, cols = points.shape[:2]
    data = array.array("B")
    data.frombytes(np.ascontiguousarray(points, dtype=np.float32).view(np.uint8).data.cast("B"))
    return PointCloud2(
        header=Header(stamp=stamp, frame_id=BASE_FRAME),
        height=rows,
        width=cols,
        fields=[
            PointField(name=name, offset=4 * i, datatype=PointField.FLOAT32, count=1) for i, name in enumerate("xyz")
        ],
        is_bigendian=False,
        point_step=12,
        row_step=12 * cols,
        data=data,
        is_dense=False,
    )
