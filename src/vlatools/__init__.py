"""vlatools: vision-language-action models as callable tools for a Franka Research 3 (ROS 2, Python)."""

__version__ = "0.1.0"
