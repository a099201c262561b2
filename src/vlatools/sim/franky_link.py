"""The transport of Franka's network protocol: one client at a time over TCP (commands) and UDP (states).

Message layouts and enums come from franky-sim; sockets, framing and reconnection are ours, because a killed client must be
noticed at once and a second one refused rather than left waiting.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import struct
import time
from collections.abc import Callable

from vlatools.core import ConfigError

_LOG = logging.getLogger(__name__)
_CONNECT = 0
_PATIENCE_S = 0.5
_READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class ClientLink:
    """Listens on one port.

    Args:
        host, port: address.
        version: protocol version that is answered to a client.
        command_type: struct code of the command field (robot "I", gripper "H").
        id_type: struct code of the message id that precedes a state (robot "Q", gripper "I").
        on_command: called with (command, command_id, payload).
        on_lost: called when the client has gone.

    Raises:
        ConfigError: the address is taken or not this machine's.
    """

    def __init__(
        self,
        host: str,
        port: int,
        version: int,
        command_type: str,
        id_type: str,
        on_command: Callable[[int, int, bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._host = host
        self._version = version
        self._header = struct.Struct(f"<{command_type}II")
        self._id = struct.Struct(f"<{id_type}")
        self._status_type = "B" if command_type == "I" else "H"
        self._on_command, self._on_lost = on_command, on_lost
        self._tcp: socket.socket | None = None
        self._waiting: tuple[socket.socket, float] | None = None  # a second client, and until when it may wait
        self.udp: socket.socket | None = None
        self._buffer = bytearray()
        self._epoll = select.epoll()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((host, port))
        except OSError as error:
            self._listener.close()
            raise ConfigError(
                f"the simulated robot cannot use {host}:{port}: {error.strerror}. Another simulation may run there: "
                f"stop it, or choose another address such as 127.0.0.6"
            ) from error
        self._listener.listen(4)
        self._listener.setblocking(False)
        self._epoll.register(self._listener, _READ)

    @property
    def connected(self) -> bool:
        """A client has introduced itself."""
        return self.udp is not None

    def poll(self) -> None:
        """Handle what has arrived over TCP; never waits."""
        self._attend()
        events = self._epoll.poll(0)
        if not events:
            return
        # The client first: if it has gone, the next one in the queue is welcome.
        if any(fd != self._listener.fileno() for fd, _ in events):
            self._receive()
        if any(fd == self._listener.fileno() for fd, _ in events):
            self._accept()

    def reply(self, command: int, command_id: int, status: int, payload: bytes = b"") -> None:
        """Answer a command."""
        body = struct.pack(f"<{self._status_type}", status) + payload
        self._send(self._header.pack(command, command_id, self._header.size + len(body)) + body)

    def send_state(self, message_id: int, state: bytes) -> None:
        """Send a state, if there is a client."""
        if self.udp is not None:
            # A client that has just died refuses; TCP will tell. A full buffer is a lost packet, as on a network.
            with contextlib.suppress(OSError):
                self.udp.send(self._id.pack(message_id) + state)

    def drop(self) -> None:
        """Close the connection to the client, as a cut cable would."""
        if self._tcp is None:
            return
        self._epoll.unregister(self._tcp)
        self._tcp.close()
        self._tcp = None
        if self.udp is not None:
            self.udp.close()
            self.udp = None
        self._buffer.clear()
        self._on_lost()

    def close(self) -> None:
        """Close everything."""
        self.drop()
        if self._waiting is not None:
            self._waiting[0].close()
        self._epoll.unregister(self._listener)
        self._listener.close()
        self._epoll.close()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        if self._tcp is None:
            self._welcome(client)
        elif self._waiting is None:
            # The client before may be dying at this moment.
            self._waiting = (client, time.monotonic() + _PATIENCE_S)
        else:
            client.close()

    def _attend(self) -> None:
        """Decide about a client that waits for the one before to go."""
        if self._waiting is None:
            return
        client, deadline = self._waiting
        if self._tcp is None:
            self._waiting = None
            self._welcome(client)
        elif time.monotonic() > deadline:
            _LOG.warning("refused a second client: the robot serves one at a time")
            self._waiting = None
            client.close()

    def _welcome(self, client: socket.socket) -> None:
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._tcp = client
        self._epoll.register(client, _READ)

    def _receive(self) -> None:
        assert self._tcp is not None
        try:
            data = self._tcp.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop()
            return
        self._buffer += data
        while self._tcp is not None and len(self._buffer) >= self._header.size:
            command, command_id, size = self._header.unpack_from(self._buffer)
            if not self._header.size <= size <= 65536:
                _LOG.warning("a client sent a message of %d bytes: dropped", size)
                self.drop()
                return
            if len(self._buffer) < size:
                return
            payload = bytes(self._buffer[self._header.size : size])
            del self._buffer[:size]
            self._handle(command, command_id, payload)

    def _handle(self, command: int, command_id: int, payload: bytes) -> None:
        if command == _CONNECT:
            self._introduce(command_id, payload)
        elif not self.connected:
            _LOG.warning("command %d before connect: dropped", command)
            self.drop()
        else:
            self._on_command(command, command_id, payload)

    def _introduce(self, command_id: int, payload: bytes) -> None:
        assert self._tcp is not None
        _, port = struct.unpack_from("<HH", payload)
        self._send(self._header.pack(_CONNECT, command_id, self._header.size + 8) + struct.pack("<HH4x", 0, self._version))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((self._host, 0))
        self.udp.connect((self._tcp.getpeername()[0], port))
        self.udp.setblocking(False)

    def _send(self, message: bytes) -> None:
        if self._tcp is None:
            return
        try:
            self._tcp.setblocking(True)
            self._tcp.settimeout(1.0)
            self._tcp.sendall(message)
            self._tcp.setblocking(False)
        except OSError:
            self.drop()
