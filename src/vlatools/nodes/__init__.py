"""Floor 5: thin adapters from ROS 2 to the floors below. rclpy is imported here and nowhere else."""
