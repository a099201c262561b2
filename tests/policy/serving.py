"""Doubles for serving: a small policy that can be served, servers in threads, a camera with pictures of the lab's size."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import json_numpy
import numpy as np
from openpi_client import msgpack_numpy
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from tests.tools.doubles import FakeArm
from vlatools.camera.ports import Intrinsics, RgbdFrame
from vlatools.core import MonotonicClock
from vlatools.policy.openpi import PolicyServer
from vlatools.policy.state import STATE_LAYOUT

HORIZON = 16


def manifest(**changes: Any) -> dict[str, Any]:
    """The contract's first frame."""
    return {
        "tapt_version": 1,
        "name": "lifter",
        "version": "1",
        "families": ["reach", "grasp", "release", "rotate"],
        "action_space": "ee_pose",
        "dt": 0.1,
        "horizon": HORIZON,
        "rate_hz": 4.0,
        "cameras": ["front"],
        "state_layout": list(STATE_LAYOUT),
        "image_size": [160, 120],
        "progress": True,
        "unnormalized_by": "server",
        "statistics_hash": "5eed",
        "quaternion_order": "xyzw",
        "image_order": "rgb",
    } | changes


class Lifter:
    """Lifts the tool slowly from where it is; its progress is the time spent. Fields may be changed by a test at any time."""

    def __init__(self, **changes: Any) -> None:
        self.manifest = manifest(**changes)
        self.seconds = 1.0  # until progress is 1
        self.on_infer: Callable[[], None] = lambda: None
        self.spoil: Callable[[dict[str, Any]], None] = lambda reply: None
        self.seen: list[Mapping[str, Any]] = []
        self.threads: set[str] = set()

    def infer(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        self.seen.append(observation)
        self.threads.add(threading.current_thread().name)
        self.on_infer()
        rows = np.tile(np.append(observation["observation/state"][:7], observation["observation/state"][7]), (HORIZON, 1))
        rows[:, 2] += 0.002 * np.arange(1, HORIZON + 1)
        share = min(1.0, observation["tapt/elapsed_s"] / self.seconds)
        reply = {"actions": rows, "progress": np.full(HORIZON, share, np.float32)}
        self.spoil(reply)
        return reply


def load_lifter(checkpoint: Path | None) -> Lifter:
    """What `vlatools serve tests.policy.serving:load_lifter` calls."""
    return Lifter(version=checkpoint.name if checkpoint else "1")


@contextmanager
def served(policy: Any, port: int = 0) -> Iterator[int]:
    """Our server in a thread; gives its port."""
    bound: list[tuple[int, asyncio.AbstractEventLoop]] = []
    stop, up = asyncio.Event(), threading.Event()
    server = PolicyServer(policy, port=port)

    def ready(_: str, number: int) -> None:
        bound.append((number, asyncio.get_running_loop()))
        up.set()

    thread = threading.Thread(target=lambda: asyncio.run(server.run(stop, ready)))
    thread.start()
    assert up.wait(5.0)
    number, loop = bound[0]
    try:
        yield number
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(15.0)
        assert not thread.is_alive()


class StockServer:
    """A server as openpi's own: one thread a client, msgpack by the published package, no request ids, text frames for errors."""

    def __init__(self, infer: Callable[[dict], dict], metadata: dict | None = None) -> None:
        self._infer, self.metadata = infer, metadata or {}
        self.requests = self.connections = 0
        self._open: list[ServerConnection] = []
        self._server = serve(self._handle, "127.0.0.1", 0, compression=None, max_size=None)
        self.port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def _handle(self, connection: ServerConnection) -> None:
        self.connections += 1
        self._open.append(connection)
        try:
            connection.send(msgpack_numpy.packb(self.metadata))
            for message in connection:
                self.requests += 1
                begin = time.monotonic()
                reply = self._infer(msgpack_numpy.unpackb(message))
                connection.send(msgpack_numpy.packb({**reply, "server_timing": {"infer_ms": 1e3 * (time.monotonic() - begin)}}))
        except ConnectionClosed:
            pass
        except Exception as error:
            connection.send(f"Traceback\n{type(error).__name__}: {error}")
            connection.close(1011)

    def kill(self) -> None:
        """Break every connection at once and stop listening."""
        self._server.shutdown()
        for connection in self._open:
            connection.close_socket()
        self._thread.join(5.0)

    def __enter__(self) -> StockServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@contextmanager
def oft_server(act: Callable[[dict], Any]) -> Iterator[str]:
    """An HTTP server as OpenVLA-OFT's: POST /act, arrays by the published json_numpy; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = json_numpy.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                body = json_numpy.dumps(act(payload)) if self.path == "/act" else None
            except ArithmeticError:
                body = json.dumps("error")
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5.0)


class LabCamera:
    """Frames of the D435's size, always fresh; each is of one colour."""

    def __init__(self) -> None:
        self.color = np.zeros((480, 640, 3), np.uint8)
        self.color[...] = (200, 100, 50)
        self.number = 0

    def latest(self, max_age_s: float) -> RgbdFrame:
        self.number += 1
        inner = Intrinsics(640, 480, 615.0, 615.0, 320.0, 240.0)
        return RgbdFrame(time.monotonic(), self.number, self.color, np.full((480, 640), 0.8, np.float32), inner)

    def wait_after(self, stamp_s: float, timeout_s: float) -> RgbdFrame:
        return self.latest(timeout_s)


class LabArm(FakeArm):
    """The kinematic arm on the real clock."""

    def __init__(self) -> None:
        super().__init__(MonotonicClock())  # type: ignore[arg-type]
