"""A client of OpenVLA-OFT's server: one HTTP request an inference, so that a late reply has nobody to go to."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from vlatools.core import StaleData
from vlatools.policy.transport import PolicyServerError

_ACT = "/act"
_MAX_REPLY = 16 << 20  # bytes
_PAUSE_S = 0.2


class OftClient:
    """Requests to one server.

    Args:
        url: e.g. ``http://192.168.1.20:8777``.
        read_timeout_s: longest wait for a reply.
    """

    def __init__(self, url: str, read_timeout_s: float) -> None:
        parts = urlsplit(url)
        self.url = url
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._read_timeout_s = read_timeout_s

    def open(self, timeout_s: float) -> None:
        """Make sure that somebody listens. It announces nothing that could be checked. Raises PolicyServerError."""
        deadline = time.monotonic() + timeout_s
        while True:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=max(0.05, deadline - time.monotonic()))
            try:
                connection.connect()
                return
            except OSError as error:
                if deadline - time.monotonic() <= _PAUSE_S:
                    raise PolicyServerError(
                        f"no policy server at {self.url} within {timeout_s:.1f} s ({error}): start it, or mend the address in "
                        f"policy_server.yaml"
                    ) from error
            finally:
                connection.close()
            time.sleep(_PAUSE_S)

    def request(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        """One inference; the bare list that the server replies with is returned as ``actions``.

        Raises:
            StaleData: no reply within the read time-out.
            PolicyServerError: the connection broke, or the server could not infer.
        """
        begin = time.monotonic()
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._read_timeout_s)
        try:
            body = json.dumps(dict(observation), default=encode).encode()
            connection.request("POST", _ACT, body, {"Content-Type": "application/json", "Connection": "close"})
            self._limit(connection, begin)
            response = connection.getresponse()
            text = self._read(connection, response, begin)
        except TimeoutError:
            raise StaleData(
                "policy", time.monotonic() - begin, self._read_timeout_s, f"{self.url} did not answer: see its log, or raise read_timeout_s"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise PolicyServerError(f"{self.url} broke the connection ({type(error).__name__}: {error}): see the server's log") from error
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise PolicyServerError(f"{self.url}{_ACT} answered {response.status} {response.reason}: {text[:200]!r}")
        return {"actions": self._actions(text)}

    def close(self) -> None:
        """No connection outlives its request."""

    def _limit(self, connection: http.client.HTTPConnection, begin: float) -> None:
        """What is left of the read time-out goes to the next wait."""
        left = self._read_timeout_s - (time.monotonic() - begin)
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)

    def _read(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, begin: float) -> bytes:
        parts: list[bytes] = []
        while True:
            self._limit(connection, begin)
            part = response.read1(1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
            if sum(map(len, parts)) > _MAX_REPLY:
                raise PolicyServerError(f"{self.url} replied with more than {_MAX_REPLY >> 20} MiB: it is no OpenVLA-OFT server")

    def _actions(self, text: bytes) -> np.ndarray[Any, Any]:
        try:
            reply = json.loads(text, object_hook=decode)
            if reply == "error":  # what the server says for whatever went wrong in it
                raise PolicyServerError(f"{self.url} could not infer: the reason is in the server's log")
            return np.asarray(reply, dtype=float)
        except (TypeError, ValueError) as error:
            raise PolicyServerError(f"{self.url} replied with what are no actions ({error}): {text[:80]!r}") from error


def encode(value: Any) -> Any:
    """A NumPy array or scalar as json_numpy writes it; for ``json.dumps``."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OVc":
        data = base64.b64encode(value.tobytes()).decode()
        return {"__numpy__": data, "dtype": value.dtype.str, "shape": list(value.shape)}
    raise TypeError(f"a {type(value).__name__} has no place in JSON")


def decode(value: dict[str, Any]) -> Any:
    """The reverse; for ``json.loads``."""
    if "__numpy__" not in value:
        return value
    dtype = np.dtype(value["dtype"])
    if dtype.kind in "OVc":
        raise ValueError(f"an array of dtype {dtype} came in")
    array = np.frombuffer(base64.b64decode(value["__numpy__"]), dtype).reshape(value["shape"])
    return array.copy() if value["shape"] else array[()]
