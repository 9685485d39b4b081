"""A caller's connection to a cooperative web process."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from socket import SHUT_WR

import gevent
from gevent.socket import socket

# A caller may take so long to send a request, and so long to take its answer.
_REQUEST_SECONDS = 30.0
# A body of 64 KiB and what frames it. Chunks of one byte take six on the wire, and processor time for each.
_MOST_WIRE_BYTES = 96 * 1024
# A caller that still sends when the connection ends is read for so long, and so much: it might not get its answer else.
_LINGER_SECONDS, _LINGER_READS, _LINGER_BYTES = 2.0, 16, 8192


class ClientConnection(socket):  # type: ignore[misc]
    """A socket whose requests wait for their turn, and whose requests and answers each have a total time."""

    def __init__(self, accepted: socket) -> None:
        """Take over a socket that was just accepted."""
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._hub = gevent.get_hub()
        self._brought_something = self._hub.loop.io(self.fileno(), 1)
        self._ends_at = 0.0
        self._wire_bytes = 0
        self._answer: list[bytes] = []
        self.is_idle = True

    def begin_request(self) -> None:
        """Let others have a turn before a request that arrived together with the one before; its body is to come."""
        if self.is_idle:
            gevent.sleep(0)
            self._begin()
        self._wire_bytes = 0

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Read. ConnectionResetError when the time of the request is over."""
        if self.is_idle:
            # Always by way of the hub: a quick caller would keep the turn otherwise.
            self._hub.wait(self._brought_something)
            self._begin()
        elif self._wire_bytes > _MOST_WIRE_BYTES:
            self._ends_at = 0.0
            raise ConnectionResetError(errno.ECONNRESET, "the body takes too many bytes on the wire")
        else:
            gevent.sleep(0)
        self.settimeout(max(0.001, self._ends_at - time.monotonic()))
        try:
            received: bytes = super().recv(size, flags)
            self._wire_bytes += len(received)
        except TimeoutError:
            self._ends_at = 0.0
            raise ConnectionResetError(errno.ECONNRESET, "the caller took too long") from None
        return received

    def sendall(self, part: bytes, flags: int = 0) -> None:
        """Keep a part of the answer until `send_answer`: head and body leave in one piece."""
        self._answer.append(part)

    def send_answer(self) -> None:
        """Send what was kept. ConnectionResetError when the caller does not take it in time."""
        answer, self._answer = b"".join(self._answer), []
        self.settimeout(_REQUEST_SECONDS)
        try:
            super().sendall(answer)
        except TimeoutError:
            raise ConnectionResetError(errno.ECONNRESET, "the caller took too long") from None
        self.is_idle = bool(self._ends_at)

    def _begin(self) -> None:
        self.is_idle = False
        self._wire_bytes = 0
        self._ends_at = time.monotonic() + _REQUEST_SECONDS

    def close(self) -> None:
        """Send what was kept, and let the caller read it before the connection ends."""
        with suppress(OSError), gevent.Timeout(_LINGER_SECONDS, False):
            self.send_answer()
            self.shutdown(SHUT_WR)
            for _ in range(_LINGER_READS):
                if not super().recv(_LINGER_BYTES):
                    break
        self._brought_something.close()
        super().close()
