"""Child process of test_bag.py: writes a bag for as long as it lives. Arguments: folder, mode (run, limit, full)."""

import resource
import signal
import sys
import time
from pathlib import Path

from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from vlatools.core import MonotonicClock
from vlatools.trials.bag import BagLimits, BagWriter
from vlatools.trials.bag_metadata import BagTopic, TopicQos
from vlatools.trials.schemas import schema

folder, mode = Path(sys.argv[1]), sys.argv[2]
if mode == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
writer = BagWriter(folder, MonotonicClock(), BagLimits(flush_s=0.2, min_free_bytes=0))
writer.add_topic(BagTopic("/joint_states", schema("sensor_msgs/msg/JointState")))
writer.add_topic(BagTopic("/noise", schema("std_msgs/msg/String"), TopicQos(reliable=False, depth=1), bulky=True))
running = True


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
random = __import__("random").Random(0)
n = 0
print("ready", flush=True)
while running and not writer.error and n < 20_000:
    message = JointState(name=[f"fr3_joint{i}" for i in range(1, 8)], position=[0.1 * n] * 7, effort=[float(n)])
    writer.put("/joint_states", time.time_ns(), serialize_message(message))
    if mode != "run":
        writer.put("/noise", time.time_ns(), serialize_message(String(data=random.randbytes(8000).hex())))
    n += 1
    print(n, flush=True)
    time.sleep(0.005)
check = writer.close()
print(f"closed {check.ok} {check.written} {check.dropped} {check.error}", flush=True)
