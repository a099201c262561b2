"""Loads the ROS middleware before anything imports librealsense: the other way round the process crashes at its end."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    from rclpy.utilities import get_rmw_implementation_identifier

    get_rmw_implementation_identifier()
