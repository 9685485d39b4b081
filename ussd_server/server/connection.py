"""A client's connection to a web process on gevent."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from socket import SHUT_WR

import gevent
from gevent.socket import socket
from gunicorn.http.errors import InvalidRequestLine

from ussd_server.server.caller_turns import CallerTurns

# A client has this long to send a request, and as long again to read the response, or each part of a long one.
_REQUEST_SECONDS = 30.0
# A body of 64 KiB with its framing. A body of an announced length may be as long as that: the application refuses it
# before reading it.
_MOST_WIRE_BYTES = 96 * 1024
# Each chunk has two ends of lines, and costs two microseconds and a copy of what was received: a body in chunks is
# received in small parts, each in a turn of its caller, and one in tiny chunks is refused. Lines of a CSV file count
# too; 5,000 may be short.
_MOST_LINES_OF_CHUNKS, _BYTES_OF_LINE = 6000, 32
_RECEIVED_OF_CHUNKS = 2048
# A response that is not longer is sent in one piece. A longer one, such as a file, is sent while it is made.
_MOST_KEPT_BYTES = 64 * 1024
# When the connection ends, what the client still sends is read up to these limits: a reset could discard the response.
_LINGER_SECONDS, _LINGER_READS, _LINGER_BYTES = 2.0, 16, 8192


_END_OF_HEAD = b"\r\n\r\n"


class ClientConnection(socket):  # type: ignore[misc]
    """A socket that waits for its turn before each part it reads, and limits the total time of requests and responses.

    A network may hold a thousand connections, and let a part arrive on all of them at once. Behind a trusted proxy,
    which receives whole requests before it sends them on, the application knows the caller: one turn for a request.

    gunicorn's parser calls `recv`, and its worker the rest (`gevent_worker.py`). `is_idle` is True between requests,
    and `idle_since` is the monotonic time of the last one's end: the worker closes connections that are idle for long.
    """

    def __init__(self, accepted: socket, turns: CallerTurns, network: str, *, is_proxied: bool = False) -> None:
        """Take over a socket that was just accepted from a client in `network`."""
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._turns, self._caller, self._is_proxied = turns, network, is_proxied
        self._has_turn = False
        self._hub = gevent.get_hub()
        self._readable = self._hub.loop.io(self.fileno(), 1)
        self._request_ends_at = 0.0
        self._is_broken_off = False
        self._wire_bytes, self._most_wire_bytes = 0, _MOST_WIRE_BYTES
        # The ends of lines in a body of chunks; None for any other.
        self._lines: int | None = None
        # The last bytes of the head that is being read; None while none is.
        self._head_end: bytes | None = None
        self._response: list[bytes] = []
        self._kept_bytes = 0
        self.is_idle, self.idle_since = True, time.monotonic()

    def begin_request(self, announced_bytes: int) -> None:
        """Begin to serve a request whose head was read; `announced_bytes` is the length of its body, 0 for no length.

        Other connections get a turn before a request that arrived together with the one before it.
        """
        if self.is_idle:
            # `recv` was not called for this request: its head was in the parser's buffer.
            gevent.sleep(0)
            self._begin()
        # Only the bytes of the body count from here on.
        self._head_end = None
        self._wire_bytes, self._most_wire_bytes = 0, max(announced_bytes, _MOST_WIRE_BYTES)
        self._lines = None if announced_bytes else 0

    def wait_for_turn(self, caller: str) -> None:
        """Wait until this caller, as the application knows it, may go on: at the beginning of each request."""
        if not self._has_turn or caller != self._caller:
            self._caller = caller
            self._turns.wait(caller)
        self._has_turn = False

    def allow_body(self, most_bytes: int) -> None:
        """Let the body of this request have at least `most_bytes`, with its framing."""
        self._most_wire_bytes = max(self._most_wire_bytes, most_bytes * 3 // 2)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Receive. Raises ConnectionResetError when the request takes too long, or too many bytes.

        Raises InvalidRequestLine when the head is complete: gunicorn's parser in C takes some for unfinished.
        """
        if self.is_idle:
            self._await_part()
            self._has_turn = not self._is_proxied
            self._begin()
        elif self._wire_bytes > self._most_wire_bytes:
            raise self._break_off("the body takes too many bytes on the wire")
        elif self._lines is not None and self._lines > _MOST_LINES_OF_CHUNKS + self._wire_bytes // _BYTES_OF_LINE:
            raise self._break_off("the body has too many chunks")
        elif self._head_end is not None and self._head_end.endswith(_END_OF_HEAD):
            raise InvalidRequestLine("the head is complete, and no request")
        else:
            self._await_rest()
        self.settimeout(max(0.001, self._request_ends_at - time.monotonic()))
        try:
            received: bytes = super().recv(size if self._lines is None else min(size, _RECEIVED_OF_CHUNKS), flags)
            self._wire_bytes += len(received)
            if self._lines is not None:
                self._lines += received.count(b"\r\n")
            if self._head_end is not None:
                self._head_end = _up_to_end_of_head(self._head_end + received)
        except TimeoutError:
            raise self._break_off("the client took too long") from None
        return received

    def sendall(self, part: bytes, flags: int = 0) -> None:
        """Keep a part of the response, and send what is kept once that is more than 64 KiB."""
        if len(part) > _MOST_KEPT_BYTES:
            # Joined with what is kept, it would be copied for each of a thousand clients that read slowly.
            self._send_kept()
        self._response.append(part)
        self._kept_bytes += len(part)
        if self._kept_bytes > _MOST_KEPT_BYTES:
            self._send_kept()

    def send_response(self) -> None:
        """Send what is kept: all of a short response, head and body in one piece.

        Raises ConnectionResetError when the client does not read it in time.
        """
        self._send_kept()

    def end_request(self) -> None:
        """Wait for another request from now on; the body of this one was read to its end."""
        self._lines = None
        self.is_idle, self.idle_since = not self._is_broken_off, time.monotonic()

    def _send_kept(self) -> None:
        """Send what is kept. Where the system takes it at once, nothing is prepared for waiting: 2 to 4 us less."""
        kept, self._response, self._kept_bytes = b"".join(self._response), [], 0
        sent = self._send_at_once(kept) if kept else 0
        if sent == len(kept):
            return
        self.settimeout(_REQUEST_SECONDS)
        try:
            super().sendall(memoryview(kept)[sent:])
        except TimeoutError:
            raise ConnectionResetError(errno.ECONNRESET, "the client took too long") from None

    def _send_at_once(self, kept: bytes) -> int:
        """Send without waiting, and return how many bytes the system took."""
        try:
            sent: int = super().send(kept, 0, 0.0)
        except BlockingIOError:
            return 0
        return sent

    def _await_part(self) -> None:
        """Wait until something has arrived, always in the hub, and for a turn to read it."""
        self._hub.wait(self._readable)
        if not self._is_proxied or self._lines is not None:
            self._turns.wait(self._caller)

    def _await_rest(self) -> None:
        try:
            with gevent.Timeout(max(0.001, self._request_ends_at - time.monotonic()), TimeoutError):
                self._await_part()
        except TimeoutError:
            raise self._break_off("the client took too long") from None

    def _begin(self) -> None:
        self.is_idle, self._head_end, self._lines = False, b"", None
        self._wire_bytes, self._most_wire_bytes = 0, _MOST_WIRE_BYTES
        self._request_ends_at = time.monotonic() + _REQUEST_SECONDS

    def _break_off(self, why: str) -> ConnectionResetError:
        """End the request's time and refuse further requests on this connection; return the error to raise."""
        self._request_ends_at = 0.0
        self._is_broken_off = True
        return ConnectionResetError(errno.ECONNRESET, why)

    def close(self) -> None:
        """Send what was kept, and let the client read it before the connection ends."""
        with suppress(OSError), gevent.Timeout(_LINGER_SECONDS, False):
            self.send_response()
            self.shutdown(SHUT_WR)
            for _ in range(_LINGER_READS):
                self._await_part()
                if not super().recv(_LINGER_BYTES):
                    break
        self._readable.close()
        super().close()


def _up_to_end_of_head(received: bytes) -> bytes:
    """Return the end of a head if it is in `received`, otherwise the last bytes, which may be its beginning."""
    return _END_OF_HEAD if _END_OF_HEAD in received else received[-3:]
