"""A connection to a web process on gevent, from a proxy that sends requests whole and reads responses at once."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from socket import SHUT_WR

import gevent
from gevent.socket import socket

# A proxy whose machine has died sends and reads nothing more.
_PATIENCE_SECONDS = 30.0
# A response that is not longer is sent in one piece. A longer one, such as a file, is sent while it is made.
_MOST_KEPT_BYTES = 64 * 1024
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 64 * 1024


class ClientConnection(socket):  # type: ignore[misc]
    """A socket for gunicorn's parser and worker, which differs from gevent's where a fault was measured.

    A response in two pieces took 5 us more, and woke the proxy twice. Of refusals that were sent before a body of 2 MB
    was read, one in eight was lost: the system resets a connection that is closed with bytes unread.

    `is_idle` is True between requests, since the monotonic time `idle_since`: the worker closes connections that are
    idle for long.
    """

    def __init__(self, accepted: socket) -> None:
        """Take over a socket that was just accepted."""
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._response: list[bytes] = []
        self._kept_bytes = 0
        self.is_idle, self.idle_since = True, time.monotonic()

    def begin_request(self) -> None:
        """Begin a request: its first part was received, maybe together with the request before it."""
        if self.is_idle:
            self.is_idle = False
            self.settimeout(_PATIENCE_SECONDS)

    def end_request(self) -> None:
        """Wait for another request from now on."""
        self.settimeout(None)
        self.is_idle, self.idle_since = True, time.monotonic()

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Receive; nothing once the connection was idle for too long. ConnectionResetError when a request stops."""
        try:
            received: bytes = super().recv(size, flags)
        except TimeoutError:
            raise ConnectionResetError(errno.ECONNRESET, "the client took too long") from None
        except OSError:
            if not self.is_idle:
                raise
            # gevent ends a wait for a connection that the worker closed by an error.
            return b""
        self.begin_request()
        return received

    def sendall(self, part: bytes, flags: int = 0) -> None:
        """Keep a part of the response, and send what is kept once that is more than 64 KiB."""
        self._response.append(part)
        self._kept_bytes += len(part)
        if self._kept_bytes > _MOST_KEPT_BYTES:
            self.send_response()

    def send_response(self) -> None:
        """Send what is kept. Raises ConnectionResetError when the client does not read it in time."""
        kept, self._response, self._kept_bytes = self._response, [], 0
        try:
            super().sendall(b"".join(kept))
        except TimeoutError:
            raise ConnectionResetError(errno.ECONNRESET, "the client took too long") from None

    def close(self) -> None:
        """Send what was kept, and let the client read it before the connection ends."""
        with suppress(OSError), gevent.Timeout(_LINGER_SECONDS, False):
            self.send_response()
            self.shutdown(SHUT_WR)
            while super().recv(_LINGER_BYTES):
                continue
        super().close()
