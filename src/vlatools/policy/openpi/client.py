"""A client of openpi's websocket protocol for a robot: every wait is bounded, and a late reply never answers the next request."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from vlatools.core import StaleData
from vlatools.policy.openpi.codec import WireError, pack, unpack
from vlatools.policy.openpi.server import MAX_MESSAGE, REQUEST
from vlatools.policy.transport import PolicyServerError

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5  # between attempts to connect
_CLOSE_S = 0.2


class OpenpiClient:
    """Requests to one server, one at a time.

    Args:
        url: e.g. ``ws://192.168.1.20:8000``.
        read_timeout_s: longest wait for a reply.
        check: judges the first frame of every connection; raises ConfigError when it does not fit, or is not what it was before.

    A server that echoes request ids (``vlatools serve``) keeps its connection after a time-out, and its late reply is dropped by its id. A
    stock server echoes none: a connection with an unanswered request is closed and made anew.
    """

    def __init__(self, url: str, read_timeout_s: float, check: Callable[[Mapping[str, Any]], None]) -> None:
        self.url = url
        self._read_timeout_s = read_timeout_s
        self._check = check
        self._ids = itertools.count(1)
        self._connection: ClientConnection | None = None
        self._echoes = False

    def open(self, timeout_s: float) -> None:
        """Make sure that there is a connection whose first frame fits, for at most ``timeout_s``.

        Raises:
            PolicyServerError: the server cannot be reached, or is no openpi server.
            ConfigError: what it announces does not fit.
        """
        if self._connection is not None and self._connection.state is State.OPEN:
            return
        self.close()
        deadline, pause = time.monotonic() + timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                self._connect(deadline)
                return
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
                left = deadline - time.monotonic()
                if left <= pause:
                    raise PolicyServerError(
                        f"no policy server at {self.url} within {timeout_s:.1f} s ({type(error).__name__}: {error}): start it, or mend the "
                        f"address in policy_server.yaml"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def request(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        """Send an observation and wait for its reply. A connection that breaks meanwhile is made anew and the request sent again.

        Raises:
            StaleData: no reply within the read time-out.
            PolicyServerError: the connection broke and could not be made anew in time, or the server answered with an error.
            ConfigError: the server came back with another manifest.
        """
        begin = time.monotonic()
        deadline = begin + self._read_timeout_s
        while True:
            self.open(max(0.0, deadline - time.monotonic()))
            assert self._connection is not None  # open() made it
            number = next(self._ids)
            try:
                self._connection.send(pack({**observation, REQUEST: number}))
                return self._receive(self._connection, number, deadline)
            except TimeoutError:
                if not self._echoes:
                    self.close()
                waited = time.monotonic() - begin
                raise StaleData(
                    "policy", waited, self._read_timeout_s, f"{self.url} did not answer: see the server's log, or raise read_timeout_s"
                ) from None
            except (ConnectionClosed, OSError):
                self.close()
                time.sleep(_FIRST_PAUSE_S)
            except (WireError, PolicyServerError):
                self.close()
                raise

    def close(self) -> None:
        """Let go of the connection. Safe to call repeatedly."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # a dead peer cannot say goodbye
                connection.close()

    def _connect(self, deadline: float) -> None:
        left = max(0.05, deadline - time.monotonic())
        try:
            connection = connect(self.url, compression=None, max_size=MAX_MESSAGE, open_timeout=left, close_timeout=_CLOSE_S, proxy=None)
        except (InvalidURI, ValueError) as error:
            raise PolicyServerError(f"{self.url} is no address of a policy server ({error}): write e.g. ws://192.168.1.20:8000") from error
        try:
            first = connection.recv(timeout=max(0.05, deadline - time.monotonic()))
            if isinstance(first, str):
                raise PolicyServerError(f"{self.url} began with text ({first[:80]!r}): it is no openpi server")
            metadata = unpack(first)
            self._check(metadata)
        except BaseException:
            connection.close()
            raise
        self._echoes = "tapt_version" in metadata
        self._connection = connection

    def _receive(self, connection: ClientConnection, number: int, deadline: float) -> dict[str, Any]:
        while True:
            message = connection.recv(timeout=max(0.0, deadline - time.monotonic()))
            if isinstance(message, str):
                last = message.strip().splitlines()[-1] if message.strip() else "no text"
                raise PolicyServerError(f"{self.url} could not infer: {last[:300]} (the whole text is in the server's log)")
            reply = unpack(message)
            echoed = reply.pop(REQUEST, None)
            if not self._echoes or echoed == number:
                return reply
