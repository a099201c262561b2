"""Serves a policy over openpi's websocket protocol, so that a stock ``openpi_client`` works on it.

First frame: the manifest. Then one reply a request, both msgpack; a text frame is an error, after which the connection ends. Inference
runs in a thread of its own, one at a time for all clients: the event loop answers pings and ``GET /healthz`` meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http
import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.protocol import State

from vlatools.policy.openpi.codec import WireError, pack, unpack
from vlatools.policy.openpi.manifest import ServedManifest

log = logging.getLogger(__name__)

REQUEST = "tapt/request"  # id that a client gave to its request, echoed in the reply
MAX_MESSAGE = 64 << 20  # bytes; an observation has about 0.1 to 1 MB
_CLOSE_S = 1.0  # for a client that does not answer a goodbye
_LAST_REPLY_S = 5.0  # a stopping server waits so long for the inference that is running


class ServedPolicy(Protocol):
    """What can be served."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The first frame, see ServedManifest."""
        ...

    def infer(self, observation: Mapping[str, Any]) -> Mapping[str, Any]:
        """One inference: ``actions`` (H, 8), and ``progress`` (H,) where the manifest says so. Called from one thread only."""
        ...


class PolicyServer:
    """A websocket server of one policy for any number of clients.

    Args:
        policy: what is served.
        host: address to listen at.
        port: TCP port, 0 for any free one.

    Raises:
        ConfigError: the policy's manifest does not fit this stack.
    """

    def __init__(self, policy: ServedPolicy, host: str = "127.0.0.1", port: int = 8000) -> None:
        self.manifest = ServedManifest.from_wire(policy.manifest, "the policy to serve")
        self._policy = policy
        self._host, self._port = host, port
        self._first_frame = pack(self.manifest.to_wire())
        self._worker = _Worker()
        self._turn = asyncio.Lock()  # first come, first served

    async def run(self, stop: asyncio.Event, ready: Callable[[str, int], None]) -> None:
        """Serve until ``stop``; ``ready`` is told address and port once clients can connect.

        The running inference may finish, for at most 5 s; then clients see the close code 1001, going away.

        Raises:
            OSError: the address is taken or not ours.
        """
        # A browser sends an Origin: a page on the operator's machine has no business here.
        server = await serve(
            self._serve,
            self._host,
            self._port,
            process_request=_health,
            origins=[None],
            compression=None,
            max_size=MAX_MESSAGE,
            close_timeout=_CLOSE_S,
        )
        host, port = next(iter(server.sockets)).getsockname()[:2]
        ready(host, port)
        try:
            await stop.wait()
            await asyncio.wait_for(self._turn.acquire(), _LAST_REPLY_S)  # the running inference is over, and no other begins
        except asyncio.TimeoutError:
            log.warning("an inference still ran after %.0f s: its reply is dropped", _LAST_REPLY_S)
        finally:
            server.close()
            if self._turn.locked():
                self._turn.release()  # who waited for it sees that its connection is closed
            self._worker.close()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(server.wait_closed(), _LAST_REPLY_S)

    async def _serve(self, connection: ServerConnection) -> None:
        peer = connection.remote_address
        log.info("%s connected", peer)
        total_ms: float | None = None
        try:
            await connection.send(self._first_frame)
            async for message in connection:
                begin = time.monotonic()
                try:
                    reply = await self._answer(connection, message, begin, total_ms)
                except Exception:  # whatever the policy raises; the next client must not suffer
                    log.exception("the inference for %s failed", peer)
                    await connection.send(traceback.format_exc())
                    await connection.close(CloseCode.INTERNAL_ERROR, "inference failed, see the text frame before")
                    return
                if reply is not None:
                    await connection.send(reply)
                total_ms = 1e3 * (time.monotonic() - begin)
        except ConnectionClosed as closed:
            log.debug("%s: %s", peer, closed)
        finally:
            log.info("%s left", peer)

    async def _answer(self, connection: ServerConnection, message: str | bytes, begin: float, total_ms: float | None) -> bytes | None:
        """Reply to one request; None if its client left while it waited for its turn."""
        if isinstance(message, str):
            raise WireError(f"a text frame came in ({message[:40]!r}): observations are msgpack in binary frames")
        observation = unpack(message)
        request = observation.pop(REQUEST, None)
        async with self._turn:
            if connection.state is not State.OPEN:
                return None
            waited = time.monotonic()
            result = dict(await self._worker.run(functools.partial(self._policy.infer, observation)))
        if "actions" not in result:
            raise WireError(f"the policy replied with {sorted(result)}, it must reply with actions")
        timing = {"infer_ms": 1e3 * (time.monotonic() - waited), "wait_ms": 1e3 * (waited - begin)}
        if total_ms is not None:
            timing["prev_total_ms"] = total_ms
        # The stock action broker cuts every array by action: a lone number must not be one.
        result = {key: value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value for key, value in result.items()}
        result["server_timing"] = timing
        if request is not None:
            result[REQUEST] = request
        return pack(result)


class _Worker:
    """One daemon thread that computes, so that a hanging inference does not keep the process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="inference", daemon=True).start()

    async def run(self, call: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Compute ``call`` in the thread; raises what it raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Mapping[str, Any]] = loop.create_future()

        def settle(result: Mapping[str, Any] | None, error: Exception | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result or {})

        def job() -> None:
            result, error = None, None
            try:
                result = call()
            except Exception as raised:
                error = raised
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, error)

        self._jobs.put(job)
        return await future

    def close(self) -> None:
        """End the thread after its job."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _health(connection: ServerConnection, request: Request) -> Response | None:
    """Answers ``GET /healthz``; every other path is a websocket."""
    if request.path == "/healthz":
        return connection.respond(http.HTTPStatus.OK, "OK\n")
    return None
