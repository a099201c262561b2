"""The lab's way in: ``ros2 launch vlatools franka.launch.py robot_ip:=172.16.0.2 camera_serial:="'012345678901'"``.

Starts the same table of processes as ``vlatools up`` (vlatools.nodes.table), and what a ROS installation adds: robot_state_publisher,
the camera's static transform from its calibration, rviz.
"""

from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import Command, LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchContext, LaunchDescription
from vlatools.camera import calibration
from vlatools.config import find_config, share_root
from vlatools.nodes.table import Arguments, ProcessSpec, active, command_line, environment, parameter_file

DESCRIPTIONS = Arguments.descriptions()


def start(context: LaunchContext) -> list:
    """Everything that depends on the arguments' values."""
    arguments = Arguments.parse({name: LaunchConfiguration(name).perform(context) for name in DESCRIPTIONS})
    actions = []
    for spec in active(arguments):
        if spec.ros:
            actions.append(
                Node(
                    package="vlatools",
                    executable=spec.executable,
                    name=spec.name,
                    output="screen",
                    prefix=priority(spec),
                    respawn=True,
                    respawn_delay=1.0,
                    parameters=[str(parameter_file()), dict(spec.parameters(arguments))],
                )
            )
        else:
            actions.append(ExecuteProcess(cmd=command_line(spec, arguments), prefix=priority(spec), output="screen"))
    variables = [SetEnvironmentVariable(key, value) for key, value in environment(arguments).items()]
    return [*variables, *actions, *visual(arguments)]


def priority(spec: ProcessSpec) -> str:
    """``nice`` goes on without the priority where it is not allowed to raise it."""
    return f"nice -n {spec.nice}" if spec.nice else ""


def visual(arguments: Arguments) -> list:
    """Robot model, the camera's transform and rviz."""
    camera = calibration.load(find_config(arguments.calibration_file))
    x, y, z = (str(v) for v in camera.camera_to_base.position)
    qx, qy, qz, qw = (str(v) for v in camera.camera_to_base.quat_xyzw)
    roll, pitch, yaw = camera.camera_to_base.rpy
    model = Command(
        [
            f"xacro {share_root() / 'urdf' / 'fr3_d435.urdf.xacro'} 'camera_xyz:={x} {y} {z}' 'camera_rpy:={roll} {pitch} {yaw}'",
        ]
    )
    actions = [
        Node(
            package="robot_state_publisher",
            executable="robot_state_publisher",
            parameters=[{"robot_description": ParameterValue(model, value_type=str)}],
        ),
        Node(
            package="tf2_ros",
            executable="static_transform_publisher",
            arguments=[
                *("--x", x, "--y", y, "--z", z, "--qx", qx, "--qy", qy, "--qz", qz, "--qw", qw),
                *("--frame-id", calibration.PARENT_FRAME, "--child-frame-id", calibration.CHILD_FRAME),
            ],
        ),
    ]
    if arguments.rviz:
        actions.append(Node(package="rviz2", executable="rviz2", arguments=["-d", str(find_config("vlatools.rviz"))]))
    return actions


def generate_launch_description() -> LaunchDescription:
    """Arguments with their descriptions (``ros2 launch vlatools franka.launch.py -s``), then the graph."""
    declared = [DeclareLaunchArgument(name, default_value=default, description=text) for name, (default, text) in DESCRIPTIONS.items()]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])
