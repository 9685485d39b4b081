"""Connections of an exchange: to addresses that the guard checked, until its deadline, with a bounded reply."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any

import httpcore2

from ussd_server.outbound.addresses import AddressGuard

Resolve = Callable[[str, int], list[str]]

CONNECT_SECONDS = 5.0
HEADER_MAX_BYTES = 48 * 1024  # with what of the body arrives in the same read
_READ_BYTES = 16 * 1024
_MOST_LINES = 200
_MOST_READS = 350  # Each takes 40 us, however little it brings.
MOST_CHUNKS = 150  # Each takes 7 to 15 us, however short it is.
_EMPTY_LINE = re.compile(rb"\n\r?\n")
_INFORMATION = re.compile(rb"HTTP/\S* 1")


class NameNotFoundError(Exception):
    """The host has no address, or its name server did not answer in time."""


class ReplyTooLargeError(Exception):
    """The reply is larger than allowed."""


def resolve_name(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system's resolver gives them."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for _, _, _, _, sockaddr in addresses))


class _Body:
    """What was received behind the head of a reply."""

    def __init__(self, *, is_chunked: bool) -> None:
        self._is_chunked = is_chunked
        self._received = bytearray()
        self._chunk_at = self._count = 0

    def take(self, received: bytes) -> None:
        """Add a part. Raises ReplyTooLargeError beyond the bounds of chunks and of lines of the trailer.

        The library reads a trailer all at once, and has no bound for its lines.
        """
        self._received += received
        while self._is_chunked and (end := self._received.find(b"\r\n", self._chunk_at)) >= 0:
            try:
                size = int(self._received[self._chunk_at : end].partition(b";")[0], 16)
            except ValueError:
                return  # The library refuses it.
            if self._count > MOST_CHUNKS or (not size and self._received.count(b"\n", end + 2) > _MOST_LINES):
                raise ReplyTooLargeError()
            if not size:
                return
            self._chunk_at = end + 2 + size + 2
            self._count += 1

    def is_longer_than(self, content_bytes: int) -> bool:
        """Whether bytes follow a reply of which all was read."""
        if not self._is_chunked:
            return len(self._received) > content_bytes
        end = _EMPTY_LINE.search(self._received, self._chunk_at)
        return end is None or end.end() < len(self._received)


class ExchangeProgress(threading.local):
    """The state of this thread's exchange: its deadline, what it may still receive, whether a byte was sent."""

    deadline_at: float = 0.0
    bytes_allowed: int = 0
    reads_allowed: int = 0
    head: bytes = b""
    body: _Body | None = None
    sent: bool = False

    def begin(self, deadline_at: float) -> None:
        """Start an exchange that ends at `deadline_at`, in seconds of the monotonic clock."""
        self.deadline_at = deadline_at
        self.bytes_allowed, self.reads_allowed = HEADER_MAX_BYTES, _MOST_READS
        self.head, self.body = b"", None
        self.sent = False

    def begin_body(self, most_bytes: int, *, is_chunked: bool) -> None:
        """Allow a body of so many bytes behind the head. Raises ReplyTooLargeError for what came with the head."""
        self.bytes_allowed = HEADER_MAX_BYTES + most_bytes
        self.body = _Body(is_chunked=is_chunked)
        self.body.take(self.head[_end_of_head(self.head) :])

    def count(self, received: bytes) -> None:
        """Take what was received. Raises ReplyTooLargeError beyond the bounds of bytes, reads, lines and chunks."""
        self.bytes_allowed -= len(received)
        self.reads_allowed -= 1
        if self.bytes_allowed < 0 or self.reads_allowed < 0:
            raise ReplyTooLargeError()
        if self.body is not None:
            self.body.take(received)
            return
        self.head += received
        if _has_long_head(self.head):
            raise ReplyTooLargeError()

    def is_followed(self, content_bytes: int) -> bool:
        """Whether bytes follow the reply, of which all was read."""
        return self.body is not None and self.body.is_longer_than(content_bytes)

    def remaining(self) -> float:
        """The seconds until the deadline; 0 when it has passed."""
        return max(0.0, self.deadline_at - time.monotonic())


class _BoundedStream(httpcore2.NetworkStream):
    """A connection on which every step counts against the deadline of its exchange."""

    def __init__(self, inner: httpcore2.NetworkStream, progress: ExchangeProgress) -> None:
        self._inner = inner
        self._progress = progress

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        remaining = self._progress.remaining()
        if not remaining:
            raise httpcore2.ReadTimeout()
        received = self._inner.read(min(max_bytes, _READ_BYTES), remaining)
        self._progress.count(received)
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _READ_BYTES):
            remaining = self._progress.remaining()
            if not remaining:
                raise httpcore2.WriteTimeout()
            self._progress.sent = True
            self._inner.write(buffer[start : start + _READ_BYTES], remaining)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        remaining = self._progress.remaining()
        if not remaining:
            raise httpcore2.ConnectTimeout()
        inner = self._inner.start_tls(ssl_context, server_hostname, min(remaining, CONNECT_SECONDS))
        # What came before is a proxy's: nothing of the request itself has left, and its reply has another head.
        self._progress.head, self._progress.sent = b"", False
        return _BoundedStream(inner, self._progress)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class BoundedBackend(httpcore2.NetworkBackend):
    """Connects to the addresses that the guard checked. The name serves the Host header and the certificate only."""

    def __init__(self, progress: ExchangeProgress, resolve: Resolve, guard: AddressGuard | None) -> None:
        self._inner = httpcore2.SyncBackend()
        self._progress = progress
        self._resolve = resolve
        self._guard = guard

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        addresses = self._addresses(host, port)
        failure: Exception = httpcore2.ConnectTimeout()
        for address in addresses:
            remaining = min(self._progress.remaining(), CONNECT_SECONDS)
            if not remaining:
                break
            try:
                stream = self._inner.connect_tcp(address, port, remaining, local_address, socket_options)
                return _BoundedStream(stream, self._progress)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            addresses = [str(ip_address(host))]
        except ValueError:
            addresses = self._resolve_in_time(host, port)
        if self._guard is not None:
            self._guard.check_addresses(addresses)
        return addresses

    def _resolve_in_time(self, host: str, port: int) -> list[str]:
        """The system's resolver has no timeout, so it runs in its own thread, which is abandoned when late."""
        addresses: list[str] = []

        def resolve() -> None:
            try:
                addresses.extend(self._resolve(host, port))
            except (OSError, UnicodeError):
                addresses.clear()

        thread = threading.Thread(target=resolve, name="resolver", daemon=True)
        thread.start()
        thread.join(min(self._progress.remaining(), CONNECT_SECONDS))
        if thread.is_alive() or not addresses:
            raise NameNotFoundError()
        return list(addresses)


def _has_long_head(received: bytes) -> bool:
    if received.count(b"\n") <= _MOST_LINES:
        return False
    return received.count(b"\n", 0, _end_of_head(received)) > _MOST_LINES


def _end_of_head(received: bytes) -> int | None:
    """Where the body of a reply begins, behind every `100 Continue`; None while its head has not ended."""
    begin = 0
    while end := _EMPTY_LINE.search(received, begin):
        if not _INFORMATION.match(received, begin):
            return end.end()
        begin = end.end()
    return None
