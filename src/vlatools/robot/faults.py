"""Robot errors by what may be done about them: recovery is selective."""

from __future__ import annotations

from enum import Enum


class Recovery(str, Enum):
    """Who may clear an error."""

    AUTOMATIC = "automatic"  # a motion was refused or broken off; nothing was touched
    COLLISION = "collision"  # the arm may have hit something: a person or planner decides
    MANUAL = "manual"  # the arm must be moved by hand, in Franka Desk


_COLLISION = (
    "joint_reflex",
    "cartesian_reflex",
    "force_control_safety_violation",
    "max_goal_pose_deviation_violation",
    "max_path_pose_deviation_violation",
    "force_controller_desired_force_tolerance_violation",
    "instability_detected",
    "joint_move_in_wrong_direction",
    "tau_j_range_violation",
)
_MANUAL = (
    "joint_position_limits_violation",
    "cartesian_position_limits_violation",
    "self_collision_avoidance_violation",
    "base_acceleration_initialization_timeout",
    "base_acceleration_invalid_reading",
)
_AUTOMATIC = (
    "joint_velocity_violation",
    "cartesian_velocity_violation",
    "cartesian_velocity_profile_safety_violation",
    "joint_position_motion_generator_start_pose_invalid",
    "joint_motion_generator_position_limits_violation",
    "joint_motion_generator_velocity_limits_violation",
    "joint_motion_generator_velocity_discontinuity",
    "joint_motion_generator_acceleration_discontinuity",
    "cartesian_position_motion_generator_start_pose_invalid",
    "cartesian_position_motion_generator_invalid_frame",
    "cartesian_motion_generator_elbow_limit_violation",
    "cartesian_motion_generator_velocity_limits_violation",
    "cartesian_motion_generator_velocity_discontinuity",
    "cartesian_motion_generator_acceleration_discontinuity",
    "cartesian_motion_generator_elbow_sign_inconsistent",
    "cartesian_motion_generator_start_elbow_invalid",
    "cartesian_motion_generator_joint_position_limits_violation",
    "cartesian_motion_generator_joint_velocity_limits_violation",
    "cartesian_motion_generator_joint_velocity_discontinuity",
    "cartesian_motion_generator_joint_acceleration_discontinuity",
    "cartesian_spline_motion_generator_violation",
    "controller_torque_discontinuity",
    "start_elbow_sign_inconsistent",
    "communication_constraints_violation",
    "power_limit_violation",
    "joint_p2p_insufficient_torque_for_planning",
    "joint_via_motion_generator_planning_joint_limit_violation",
)

RECOVERY: dict[str, Recovery] = {
    **dict.fromkeys(_AUTOMATIC, Recovery.AUTOMATIC),
    **dict.fromkeys(_COLLISION, Recovery.COLLISION),
    **dict.fromkeys(_MANUAL, Recovery.MANUAL),
}


def recovery_of(errors: tuple[str, ...]) -> Recovery:
    """The strictest class among ``errors``; an unknown error, or a reflex without a name, counts as a collision."""
    classes = {RECOVERY.get(name, Recovery.COLLISION) for name in errors} or {Recovery.COLLISION}
    for strictest in (Recovery.MANUAL, Recovery.COLLISION):
        if strictest in classes:
            return strictest
    return Recovery.AUTOMATIC


def advice(errors: tuple[str, ...]) -> str:
    """What to do about ``errors``, in words."""
    names = ", ".join(errors) or "reflex"
    match recovery_of(errors):
        case Recovery.AUTOMATIC:
            extra = ""
            if "communication_constraints_violation" in errors:
                extra = " (check the real-time kernel, the CPU governor and the network to the robot)"
            return f"the robot stopped with {names}{extra}: call /arm/recover"
        case Recovery.COLLISION:
            return f"the robot stopped with {names}: look at the arm, then call /arm/recover with allow_collision"
        case _:
            return f"the robot stopped with {names}: unlock and move the arm back by hand in Franka Desk, then /arm/recover"
