"""Ending on signals: however many come, wherever the main thread is."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from vlatools.signals import SignalEvent

STORM = """
import os, signal, sys, threading
from vlatools.signals import stop_on
stop = stop_on(signal.SIGTERM, signal.SIGINT)
print("ready", flush=True)
for _ in range(3000):
    os.kill(os.getpid(), signal.SIGTERM)
    stop.set()
    stop.wait(0.0)
print("still here", flush=True)
"""


def test_a_storm_of_signals_does_not_hang_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n")[:2] == ["ready", "still here"], done.stderr


def test_a_signal_ends_a_wait_without_a_limit() -> None:
    code = (
        "import signal; from vlatools.signals import stop_on; stop = stop_on(signal.SIGTERM); "
        "print('ready', flush=True); stop.wait(); print('ended')"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == "ended\n"


def test_a_wait_ends_in_time() -> None:
    begin = time.monotonic()
    assert not SignalEvent().wait(0.1)
    assert 0.1 <= time.monotonic() - begin < 5.0
