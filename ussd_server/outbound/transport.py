"""HTTP to other servers: a total deadline, size limits, no redirects, and how much of a request was sent."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

from ussd_server.outbound.addresses import AddressGuard, AddressRefusedError, Target

Resolve = Callable[[str, int], list[str]]

_CONNECT_SECONDS = 5.0
_HEADER_MAX_BYTES = 48 * 1024  # with what of the body arrives in the same read
_READ_BYTES = 16 * 1024
_BODY_MAX_BYTES = 64 * 1024
# A chunk of one byte costs six on the wire: beyond eightfold the sender wastes our time.
_WIRE_BYTES_PER_BODY_BYTE = 8
_IDLE_CONNECTION_SECONDS = 20.0


class SendState(StrEnum):
    """How far a request came.

    NOT_SENT: no byte of it left this machine. LOST: it may have arrived, no answer did. ANSWERED: a status came back.
    """

    NOT_SENT = "not_sent"
    LOST = "lost"
    ANSWERED = "answered"


class TransportFailure(StrEnum):
    """The error of an exchange, in text that may be shown and logged."""

    ADDRESS_REFUSED = "address_refused"
    NAME_NOT_FOUND = "name_not_found"
    NO_CONNECTION = "no_connection"
    TIMEOUT = "timeout"
    BROKEN = "broken"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """The outcome of one request.

    `status` and `headers` (names in lower case) are set when it was answered; `body` holds what arrived of it, and
    `complete` says whether that is all. `trouble` is None for a complete answer.
    """

    reach: SendState
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    complete: bool = False
    trouble: TransportFailure | None = None
    elapsed_seconds: float = 0.0


class _NameNotFoundError(Exception):
    """The host has no address, or its name server did not answer in time."""


class _TooLargeError(Exception):
    """The reply is larger than allowed."""


class Transport:
    """A pool of connections: without a guard to providers, whose addresses the operator sets, with one to clients' own.

    Safe in threads and after a fork. Never follows a redirect, keeps no cookies, reads nothing from the environment.
    `trust` holds the certificates to believe, by default the public authorities.
    """

    def __init__(
        self,
        guard: AddressGuard | None = None,
        *,
        max_connections: int = 20,
        trust: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._guard = guard
        self._max_connections = max_connections
        self._trust = trust or authorities()
        self._progress = _Progress()
        self._backend = _BoundedBackend(self._progress, resolve or resolve_name, guard)
        # One pool for each process: a forked child must not write into its parent's connections.
        self._pools: dict[int, httpcore2.ConnectionPool] = {}

    def exchange(
        self,
        method: str,
        url: str,
        *,
        timeout_seconds: float,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        max_body_bytes: int = _BODY_MAX_BYTES,
    ) -> HttpExchange:
        """Send one request and read its reply, within `timeout_seconds` in all. Returns errors as an outcome."""
        began_at = time.monotonic()
        self._progress.begin(began_at + timeout_seconds)
        try:
            answer = self._send(method, self._target(url), dict(headers or {}), body, max_body_bytes)
        except AddressRefusedError:
            answer = self._unanswered(TransportFailure.ADDRESS_REFUSED)
        except _NameNotFoundError:
            answer = self._unanswered(TransportFailure.NAME_NOT_FOUND)
        except _TooLargeError:
            answer = self._unanswered(TransportFailure.TOO_LARGE)
        except httpcore2.TimeoutException:
            answer = self._unanswered(TransportFailure.TIMEOUT)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.UnsupportedProtocol, OSError):
            answer = self._unanswered(
                TransportFailure.BROKEN if self._progress.sent else TransportFailure.NO_CONNECTION
            )
        return replace(answer, elapsed_seconds=time.monotonic() - began_at)

    def close(self) -> None:
        """Close the idle connections of this process."""
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.close()

    def _target(self, url: str) -> Target:
        if self._guard is not None:
            return self._guard.check_url(url)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AddressRefusedError("The address is not a valid URL")
        return Target(
            scheme=parts.scheme,
            host=parts.hostname,
            port=parts.port or (443 if parts.scheme == "https" else 80),
            path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        )

    def _send(
        self, method: str, target: Target, headers: dict[str, str], body: bytes, max_body_bytes: int
    ) -> HttpExchange:
        bracketed = f"[{target.host}]" if ":" in target.host else target.host
        usual_port = target.port == (443 if target.scheme == "https" else 80)
        headers = {
            "Host": bracketed if usual_port else f"{bracketed}:{target.port}",
            "Accept-Encoding": "identity",
            "User-Agent": "ussd-server",
            "Content-Length": str(len(body)),
        } | headers
        if method == "GET" and not body:
            del headers["Content-Length"]
        timeouts = {"pool": self._progress.remaining(), "connect": _CONNECT_SECONDS}
        with self._pool().stream(
            method,
            httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
            headers=list(headers.items()),
            content=body,
            extensions={"timeout": timeouts},
        ) as response:
            names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            received, trouble = self._read_body(response, max_body_bytes)
            return HttpExchange(SendState.ANSWERED, response.status, names, received, trouble is None, trouble)

    def _read_body(self, response: httpcore2.Response, max_body_bytes: int) -> tuple[bytes, TransportFailure | None]:
        """What arrives of the body: the status is known by now, so trouble here is reported beside it, not raised."""
        received = bytearray()
        self._progress.bytes_allowed = _HEADER_MAX_BYTES + _WIRE_BYTES_PER_BODY_BYTE * max_body_bytes
        try:
            for piece in response.iter_stream():
                received += piece
                if len(received) > max_body_bytes:
                    return bytes(received[:max_body_bytes]), TransportFailure.TOO_LARGE
        except _TooLargeError:
            return bytes(received), TransportFailure.TOO_LARGE
        except httpcore2.TimeoutException:
            return bytes(received), TransportFailure.TIMEOUT
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError):
            return bytes(received), TransportFailure.BROKEN
        return bytes(received), None

    def _unanswered(self, trouble: TransportFailure) -> HttpExchange:
        return HttpExchange(SendState.LOST if self._progress.sent else SendState.NOT_SENT, trouble=trouble)

    def _pool(self) -> httpcore2.ConnectionPool:
        pool = self._pools.get(os.getpid())
        if pool is None:
            pool = self._pools.setdefault(
                os.getpid(),
                httpcore2.ConnectionPool(
                    ssl_context=self._trust,
                    max_connections=self._max_connections,
                    # A kept connection would skip the guard: what a name means is decided anew for every call.
                    max_keepalive_connections=self._max_connections if self._guard is None else 0,
                    keepalive_expiry=_IDLE_CONNECTION_SECONDS,
                    network_backend=self._backend,
                ),
            )
        return pool


@cache
def authorities(more: Path | None = None) -> ssl.SSLContext:
    """The public certificate authorities and those in the file `more`; reading them takes longer than most calls.

    Raises OSError for a file that cannot be read or holds no certificate in PEM.
    """
    context = httpx2.create_ssl_context(trust_env=False)
    if more is not None:
        context.load_verify_locations(more)
    return context


def resolve_name(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system's resolver gives them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for _, _, _, _, sockaddr in found))


class _Progress(threading.local):
    """The state of this thread's exchange: its deadline, the bytes it may still receive, whether a byte was sent."""

    deadline_at: float = 0.0
    bytes_allowed: int = 0
    sent: bool = False

    def begin(self, deadline_at: float) -> None:
        self.deadline_at = deadline_at
        self.bytes_allowed = _HEADER_MAX_BYTES
        self.sent = False

    def remaining(self) -> float:
        return max(0.0, self.deadline_at - time.monotonic())


class _BoundedStream(httpcore2.NetworkStream):
    """A connection on which every step counts against the deadline of its exchange."""

    def __init__(self, inner: httpcore2.NetworkStream, progress: _Progress) -> None:
        self._inner = inner
        self._progress = progress

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        remaining = self._progress.remaining()
        if not remaining:
            raise httpcore2.ReadTimeout()
        received = self._inner.read(min(max_bytes, _READ_BYTES), remaining)
        self._progress.bytes_allowed -= len(received)
        if self._progress.bytes_allowed < 0:
            raise _TooLargeError()
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
        inner = self._inner.start_tls(ssl_context, server_hostname, min(remaining, _CONNECT_SECONDS))
        return _BoundedStream(inner, self._progress)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _BoundedBackend(httpcore2.NetworkBackend):
    """Connects to the addresses that the guard checked. The name serves the Host header and the certificate only."""

    def __init__(self, progress: _Progress, resolve: Resolve, guard: AddressGuard | None) -> None:
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
        trouble: Exception = httpcore2.ConnectTimeout()
        for address in addresses:
            remaining = min(self._progress.remaining(), _CONNECT_SECONDS)
            if not remaining:
                break
            try:
                stream = self._inner.connect_tcp(address, port, remaining, local_address, socket_options)
                return _BoundedStream(stream, self._progress)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                trouble = error
        raise trouble

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = [str(ip_address(host))]
        except ValueError:
            found = self._resolve_in_time(host, port)
        if self._guard is not None:
            self._guard.check_addresses(found)
        return found

    def _resolve_in_time(self, host: str, port: int) -> list[str]:
        """The system's resolver has no timeout, so it runs in its own thread, which is abandoned when late."""
        found: list[str] = []

        def resolve() -> None:
            try:
                found.extend(self._resolve(host, port))
            except (OSError, UnicodeError):
                found.clear()

        thread = threading.Thread(target=resolve, name="resolver", daemon=True)
        thread.start()
        thread.join(min(self._progress.remaining(), _CONNECT_SECONDS))
        if thread.is_alive() or not found:
            raise _NameNotFoundError()
        return list(found)
