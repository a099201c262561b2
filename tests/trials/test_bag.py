"""Bags: whatever ends the recording, what was flushed is readable, counted and self-describing."""

import io
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from mcap.records import Schema
from mcap_ros2.decoder import DecoderFactory
from rclpy.serialization import deserialize_message, serialize_message
from rich.console import Console
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import String

from vlatools.core import ManualClock, MonotonicClock
from vlatools.trials.bag import BagError, BagLimits, BagWriter
from vlatools.trials.bag_info import bag_info, bag_table
from vlatools.trials.bag_metadata import BagTopic, TopicQos
from vlatools.trials.bag_read import BagReader, BagUnreadable
from vlatools.trials.repair import repair_bag
from vlatools.trials.schemas import UnknownType, schema

LIMITS = BagLimits(flush_s=0.1, min_free_bytes=0)
STRING = schema("std_msgs/msg/String")
CHILD = Path(__file__).with_name("bag_writer_child.py")


def text(value):
    return serialize_message(String(data=value))


def write(folder, count=20, limits=LIMITS):
    writer = BagWriter(folder, MonotonicClock(), limits)
    writer.add_topic(BagTopic("/log", STRING, TopicQos(reliable=True, latched=True, depth=1)))
    writer.add_topic(BagTopic("/empty", STRING))
    for n in range(count):
        assert writer.put("/log", 1_000_000_000 + n * 100_000_000, text(f"message {n}"))
    return writer


def test_round_trip_as_others_read_it(tmp_path):
    check = write(tmp_path / "bag").close()
    assert check.ok and check.written == 20 and check.dropped == 0
    # An independent reader of rosbag2 folders must see types, counts, stamps and contents.
    with AnyReader([tmp_path / "bag"], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        assert {c.topic: c.msgcount for c in reader.connections} == {"/log": 20, "/empty": 0}
        assert all(c.digest.startswith("RIHS01_") for c in reader.connections)
        stamps, contents = zip(
            *((stamp, reader.deserialize(data, c.msgtype).data) for c, stamp, data in reader.messages()), strict=True
        )
    assert contents[7] == "message 7" and stamps[1] - stamps[0] == 100_000_000
    ours = list(BagReader(tmp_path / "bag").messages())
    assert deserialize_message(ours[3].data, String).data == ours[3].decode().data == "message 3"
    info = bag_info(tmp_path / "bag")
    log = next(t for t in info.topics if t.name == "/log")
    assert info.closed and info.indexed and log.rate_hz == pytest.approx(10.0)
    assert log.longest_gap_s == pytest.approx(0.1) and info.duration_s == pytest.approx(1.9)


def test_every_interface_describes_itself():
    names = [f"vlatools_interfaces/msg/{n}" for n in ("ArmState", "Plan", "ToolProgress", "InvocationRecord", "TrialEvent")]
    for name in [*names, "sensor_msgs/msg/CameraInfo", "diagnostic_msgs/msg/DiagnosticArray"]:
        found = schema(name)
        assert found.hash.startswith("RIHS01_") and "MSG: std_msgs/Header" in found.text
    # Decoding by the text alone gives what ROS wrote.
    kind = schema("sensor_msgs/msg/CameraInfo")
    decode = DecoderFactory().decoder_for("cdr", Schema(1, kind.text.encode(), "ros2msg", kind.name))
    message = CameraInfo(width=640, height=480, k=[float(i) for i in range(9)])
    assert list(decode(serialize_message(message)).k) == list(message.k)
    with pytest.raises(UnknownType, match="nowhere_msgs"):
        schema("nowhere_msgs/msg/Nothing")


def start_child(folder, mode):
    # The child's own output is read line by line: it says how far it is.
    return subprocess.Popen([sys.executable, str(CHILD), str(folder), mode], stdout=subprocess.PIPE, text=True)


def test_sigkill_leaves_all_but_the_last_second(tmp_path):
    child = start_child(tmp_path / "bag", "run")
    assert child.stdout.readline() == "ready\n"
    marks = []
    end = time.monotonic() + 1.5 + random.random()
    while time.monotonic() < end:
        marks.append((time.monotonic(), int(child.stdout.readline())))
    killed = time.monotonic()
    child.kill()
    child.wait()
    messages = list(BagReader(tmp_path / "bag").messages())
    last = round(messages[-1].decode().effort[0]) + 1
    due = max(n for stamp, n in marks if stamp <= killed - 1.0)
    assert last >= due and len(messages) == last
    info = bag_info(tmp_path / "bag")
    assert not info.closed and not info.indexed and info.damage
    mended = repair_bag(tmp_path / "bag")
    assert mended.closed and mended.indexed and mended.messages == len(messages)
    with AnyReader([tmp_path / "bag"], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        assert sum(1 for _ in reader.messages()) == len(messages)


def test_sigterm_closes_the_bag(tmp_path):
    child = start_child(tmp_path / "bag", "run")
    for _ in range(50):
        child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    rest = child.stdout.read().splitlines()
    assert child.wait(10) == 0 and rest[-1].startswith("closed True")
    assert bag_info(tmp_path / "bag").closed


def check_full(folder, child):
    out = child.stdout.read().splitlines()
    assert child.wait(20) == 0
    _, ok, written, dropped, *error = out[-1].split(maxsplit=4)
    assert ok == "False" and "recording ended" in error[0] and int(dropped) > 0
    info = bag_info(folder)
    assert info.messages == int(written) > 10 and info.closed


def test_file_size_limit_ends_recording_and_keeps_it_readable(tmp_path):
    check_full(tmp_path / "bag", start_child(tmp_path / "bag", "limit"))


def test_full_disk_ends_recording_and_keeps_it_readable(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root; the file size limit above covers the same path")
    try:
        check_full(disk / "bag", start_child(disk / "bag", "full"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_low_space_refuses_to_begin(tmp_path):
    with pytest.raises(BagError, match="MB free"):
        BagWriter(tmp_path / "bag", MonotonicClock(), BagLimits(min_free_bytes=1 << 60))
    assert not (tmp_path / "bag").exists()


def test_drops_are_counted_and_bulky_topics_go_first(tmp_path):
    gate = threading.Event()
    writer = BagWriter(tmp_path / "bag", MonotonicClock(), BagLimits(queue_messages=10, min_free_bytes=0))
    writer.add_topic(BagTopic("/image", STRING, bulky=True))
    writer.add_topic(BagTopic("/state", STRING))

    def slow():
        gate.wait(5)
        return text("first")

    assert writer.put("/state", 1, slow, size=10)
    time.sleep(0.3)  # the writer has taken it and waits
    images = [writer.put("/image", n, text("i")) for n in range(2, 12)]
    states = [writer.put("/state", n, text("s")) for n in range(12, 22)]
    gate.set()
    assert sum(images) == 5 and sum(states) == 5
    check = writer.close()
    assert check.ok and check.counts["/image"].dropped == 5 and check.counts["/state"].dropped == 5
    assert {t.name: t.dropped for t in bag_info(tmp_path / "bag").topics} == {"/image": 5, "/state": 5}


def test_a_large_message_is_bounded_by_bytes(tmp_path):
    writer = BagWriter(tmp_path / "bag", MonotonicClock(), BagLimits(queue_bytes=1000, min_free_bytes=0))
    writer.add_topic(BagTopic("/state", STRING))
    assert not writer.put("/state", 1, text("x" * 2000))
    assert writer.put("/state", 1, text("x" * 500))
    assert writer.close().dropped == 1


def test_encoder_fault_drops_one_message(tmp_path):
    writer = write(tmp_path / "bag")
    writer.put("/log", 5_000_000_000, lambda: 1 / 0, size=1)
    writer.put("/log", 5_000_000_001, text("after"))
    check = writer.close()
    assert check.ok and check.written == 21 and check.counts["/log"].dropped == 1


def test_stamps_never_go_back(tmp_path):
    writer = write(tmp_path / "bag", 3)
    writer.put("/log", 500, text("clock set back"))
    writer.put("/log", 2_000_000_000, text("later"))
    check = writer.close()
    stamps = [m.log_ns for m in BagReader(tmp_path / "bag").messages()]
    assert check.stamps_corrected == 1 and all(a <= b for a, b in itertools.pairwise(stamps))
    assert [m.publish_ns for m in BagReader(tmp_path / "bag").messages()][3] == 500


def test_flush_is_by_the_clock(tmp_path):
    clock = ManualClock()
    writer = BagWriter(tmp_path / "bag", clock, BagLimits(flush_s=0.5, min_free_bytes=0))
    writer.add_topic(BagTopic("/log", STRING))
    writer.put("/log", 1, text("a"))
    time.sleep(0.3)
    assert bag_info(tmp_path / "bag").messages == 0
    clock.advance(0.6)
    deadline = time.monotonic() + 5
    while bag_info(tmp_path / "bag").messages == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert bag_info(tmp_path / "bag").messages == 1 and writer.counts()["/log"].written == 1
    writer.close()


def test_put_never_blocks_and_nothing_is_lost_under_load(tmp_path):
    writer = BagWriter(tmp_path / "bag", MonotonicClock(), LIMITS)
    writer.add_topic(BagTopic("/log", STRING))
    data = text("x" * 200)
    slowest = 0.0
    for n in range(5000):
        begin = time.perf_counter()
        writer.put("/log", n, data)
        slowest = max(slowest, time.perf_counter() - begin)
    check = writer.close()
    assert check.ok and check.written == 5000 and slowest < 0.5


@pytest.mark.parametrize("cut", [0.05, 0.3, 0.6, 0.95, 0.999])
def test_a_cut_anywhere_loses_only_the_tail(tmp_path, cut):
    writer = BagWriter(tmp_path / "bag", clock := ManualClock(), LIMITS)
    writer.add_topic(BagTopic("/log", STRING))
    for n in range(30):
        writer.put("/log", n + 1, text(os.urandom(100).hex()))
        clock.advance(0.2)
        while writer.counts()["/log"].written <= n:
            time.sleep(0.005)
            clock.advance(0.2)
    assert writer.close().ok
    whole = [m.data for m in BagReader(tmp_path / "bag").messages()]
    file = writer.path
    size = file.stat().st_size
    os.truncate(file, int(size * cut))
    (tmp_path / "bag" / "metadata.yaml").unlink()
    kept = [m.data for m in BagReader(tmp_path / "bag").messages()]
    assert kept == whole[: len(kept)] and (len(kept) >= 28 * cut * 0.7 - 3)
    assert repair_bag(tmp_path / "bag").messages == len(kept)


def test_damage_in_the_middle_is_said(tmp_path):
    writer = write(tmp_path / "bag", 200)
    writer.close()
    data = bytearray(writer.path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    writer.path.write_bytes(data)
    info = bag_info(tmp_path / "bag")
    assert not info.closed and info.damage


def test_messages_are_clear(tmp_path):
    with pytest.raises(BagUnreadable, match=r"no \.mcap"):
        bag_info(tmp_path)
    writer = write(tmp_path / "bag")
    with pytest.raises(BagError, match="begin a new bag"):
        writer.add_topic(BagTopic("/log", schema("std_msgs/msg/Header")))
    writer.close()
    with pytest.raises(BagError, match="another folder"):
        BagWriter(tmp_path / "bag", MonotonicClock(), LIMITS)
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(bag_table(bag_info(tmp_path / "bag")))
    shown = console.export_text()
    assert "/log" in shown and "closed and indexed" in shown and "10.0 Hz" in shown and "std_msgs/String" in shown
    narrow = Console(width=60, record=True, file=io.StringIO())
    narrow.print(bag_table(bag_info(tmp_path / "bag")))
    assert "10.0 Hz" in narrow.export_text()
