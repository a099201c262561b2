"""Images as a bag keeps them: colour as JPEG, depth as 16-bit PNG, in the forms of image_transport's plugins."""

from __future__ import annotations

import array

import cv2
import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage, Image

from vlatools.nodes.images import image_from_msg
from vlatools.nodes.ros_camera import color_from_msg, depth_to_mm

COLOR_SUFFIX, DEPTH_SUFFIX = "/compressed", "/compressedDepth"
COMPRESSED_TYPE = "sensor_msgs/msg/CompressedImage"
# compressed_depth_image_transport puts a header of its quantisation before the PNG; for 16UC1 it is unused.
_DEPTH_HEADER = bytes(12)
_PNG_LEVEL = 1


def compress_color(data: bytes, quality: int) -> bytes:
    """A serialised Image (rgb8, bgr8) as a serialised CompressedImage (JPEG). Raises Rejected for another encoding."""
    image = deserialize_message(data, Image)
    pixels = cv2.cvtColor(color_from_msg(image), cv2.COLOR_RGB2BGR)
    encoded: NDArray[np.uint8] = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return _compressed(image, f"{image.encoding}; jpeg compressed bgr8", encoded.tobytes())


def compress_depth(data: bytes) -> bytes:
    """A serialised Image (16UC1 in mm, or 32FC1 in m) as a serialised CompressedImage (16-bit PNG, mm, 0 unknown)."""
    image = deserialize_message(data, Image)
    pixels = image_from_msg(image)
    counts = pixels if pixels.dtype == np.uint16 else depth_to_mm(pixels)
    encoded: NDArray[np.uint8] = cv2.imencode(".png", counts, [cv2.IMWRITE_PNG_COMPRESSION, _PNG_LEVEL])[1]
    return _compressed(image, "16UC1; compressedDepth png", _DEPTH_HEADER + encoded.tobytes())


def _compressed(image: Image, form: str, data: bytes) -> bytes:
    message = CompressedImage(header=image.header, format=form, data=array.array("B", data))
    return bytes(serialize_message(message))
