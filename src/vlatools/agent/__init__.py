"""The agent: state, plan library, effect checks and the runner. Floor 3: knows no ROS; time and ports are injected."""
