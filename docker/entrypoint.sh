#!/usr/bin/env bash
# Sources ROS and this repository's workspace, then becomes the given command. The setup files read unset variables: no `set -u`.
set -eo pipefail
source "/opt/ros/$ROS_DISTRO/setup.bash"
source /opt/vlatools/ros2_ws/install/setup.bash
exec "$@"
