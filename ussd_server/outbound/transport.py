"""HTTP to other servers: a total deadline, size limits, no redirects, and how much of a request was sent."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpcore2
import httpx2

from ussd_server.logs import trace_headers
from ussd_server.outbound import bounded_network
from ussd_server.outbound.addresses import AddressGuard, AddressRefusedError, Target
from ussd_server.spans import request_span
from ussd_server.threads import Turns

_BODY_MAX_BYTES = 64 * 1024
_USER_AGENT = f"ussd-server/{version('ussd-server')}"
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
    PROXY_REFUSED = "proxy_refused"
    NO_TLS = "no_tls"
    CERTIFICATE_EXPIRED = "certificate_expired"
    CERTIFICATE_OF_ANOTHER = "certificate_of_another"
    CERTIFICATE_NOT_TRUSTED = "certificate_not_trusted"
    TIMEOUT = "timeout"
    BROKEN = "broken"
    TOO_LARGE = "too_large"


# The errors that end an exchange.
_FAILURES: Mapping[type[Exception], TransportFailure] = {
    AddressRefusedError: TransportFailure.ADDRESS_REFUSED,
    bounded_network.NameNotFoundError: TransportFailure.NAME_NOT_FOUND,
    bounded_network.ReplyTooLargeError: TransportFailure.TOO_LARGE,
    httpcore2.TimeoutException: TransportFailure.TIMEOUT,
    httpcore2.NetworkError: TransportFailure.BROKEN,
    httpcore2.ProtocolError: TransportFailure.BROKEN,
    httpcore2.UnsupportedProtocol: TransportFailure.BROKEN,
    OSError: TransportFailure.BROKEN,
}
_ERRORS = tuple(_FAILURES)
# By the numbers of OpenSSL. A certificate that is not valid yet is one that our clock misjudges.
_OF_CERTIFICATES = {
    9: TransportFailure.CERTIFICATE_EXPIRED,
    10: TransportFailure.CERTIFICATE_EXPIRED,
    62: TransportFailure.CERTIFICATE_OF_ANOTHER,
    64: TransportFailure.CERTIFICATE_OF_ANOTHER,
}


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


class Transport:
    """A pool of connections: without a guard to providers, whose addresses the operator sets, with one to clients' own.

    Safe in threads and after a fork. Never follows a redirect, keeps no cookies, reads nothing from the environment.
    `trust` holds the certificates to believe, by default the public authorities. `proxy` is the address of a proxy,
    `http://USER:PASSWORD@HOST:PORT`, through which https goes by CONNECT; None for a direct connection.
    """

    def __init__(
        self,
        guard: AddressGuard | None = None,
        *,
        max_connections: int = 20,
        trust: ssl.SSLContext | None = None,
        proxy: str | None = None,
        resolve: bounded_network.Resolve | None = None,
    ) -> None:
        self._guard = guard
        self._max_connections = max_connections
        self._trust = trust or authorities()
        self._proxy = _proxy_at(proxy) if proxy else None
        self._progress = bounded_network.ExchangeProgress()
        self._backend = bounded_network.BoundedBackend(self._progress, resolve or bounded_network.resolve_name, guard)
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
            with Turns.waiting():
                answer = self._send(method, self._target(url), dict(headers or {}), body, max_body_bytes)
        except httpcore2.ProxyError:
            # The proxy made no connection, so nothing of the request has left.
            answer = HttpExchange(SendState.NOT_SENT, trouble=TransportFailure.PROXY_REFUSED)
        except _ERRORS as error:
            answer = self._unanswered(_failure_of(error))
        return replace(answer, elapsed_seconds=time.monotonic() - began_at)

    def close(self) -> None:
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.close()

    def _target(self, url: str) -> Target:
        if self._guard is not None:
            return self._guard.check_url(url)
        try:
            target = Target.of(urlsplit(url))
        except ValueError:
            raise AddressRefusedError("The address is not a valid URL") from None
        if target.scheme not in ("http", "https") or not target.host:
            raise AddressRefusedError("The address is not a valid URL")
        return target

    def _send(
        self, method: str, target: Target, headers: dict[str, str], body: bytes, max_body_bytes: int
    ) -> HttpExchange:
        bracketed = f"[{target.host}]" if ":" in target.host else target.host
        headers = {
            "Host": bracketed if target.has_usual_port else f"{bracketed}:{target.port}",
            "Accept-Encoding": "identity",
            "User-Agent": _USER_AGENT,
            "Content-Length": str(len(body)),
        } | headers
        if method == "GET" and not body:
            del headers["Content-Length"]
        timeouts = {"pool": self._progress.remaining(), "connect": bounded_network.CONNECT_SECONDS}
        with (
            request_span(method, target.host) as result,
            self._pool().stream(
                method,
                httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
                # A value may be what a subscriber typed; a text with other letters than ASCII raises an error.
                headers=[(name, value.encode()) for name, value in (headers | trace_headers()).items()],
                content=body,
                extensions={"timeout": timeouts},
            ) as response,
        ):
            result["http.response.status_code"] = response.status
            names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            is_chunked = "transfer-encoding" in names
            received, trouble = self._read_body(response, max_body_bytes, is_chunked)
            return HttpExchange(SendState.ANSWERED, response.status, names, received, trouble is None, trouble)

    def _read_body(
        self, response: httpcore2.Response, max_body_bytes: int, is_chunked: bool
    ) -> tuple[bytes, TransportFailure | None]:
        """The body as far as it arrives. The status is known, so an error is reported beside it, not raised."""
        received = bytearray()
        try:
            self._progress.begin_body(max_body_bytes, is_chunked=is_chunked)
            for number, piece in enumerate(response.iter_stream(), 1):
                received += piece
                if len(received) > max_body_bytes or number > bounded_network.MOST_CHUNKS:
                    return bytes(received[:max_body_bytes]), TransportFailure.TOO_LARGE
            if self._progress.is_followed(len(received)):
                # The library would read it as the reply to the next request.
                response.extensions["network_stream"].close()
        except _ERRORS as error:
            return bytes(received), _failure_of(error)
        return bytes(received), None

    def _unanswered(self, trouble: TransportFailure) -> HttpExchange:
        if self._progress.sent:
            return HttpExchange(SendState.LOST, trouble=trouble)
        if trouble is TransportFailure.BROKEN:
            trouble = TransportFailure.NO_CONNECTION
        if self._proxy and trouble in (TransportFailure.NO_CONNECTION, TransportFailure.NAME_NOT_FOUND):
            trouble = TransportFailure.PROXY_REFUSED
        return HttpExchange(SendState.NOT_SENT, trouble=trouble)

    def _pool(self) -> httpcore2.ConnectionPool:
        pool = self._pools.get(os.getpid())
        if pool is None:
            pool = self._pools.setdefault(
                os.getpid(),
                httpcore2.ConnectionPool(
                    ssl_context=self._trust,
                    proxy=self._proxy,
                    max_connections=self._max_connections,
                    # With a guard, keep no connection: every call resolves the name again and passes the guard.
                    max_keepalive_connections=self._max_connections if self._guard is None else 0,
                    keepalive_expiry=_IDLE_CONNECTION_SECONDS,
                    network_backend=self._backend,
                ),
            )
        return pool


def _proxy_at(address: str) -> httpcore2.Proxy:
    parts = urlsplit(address)
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return httpcore2.Proxy(f"{parts.scheme}://{parts.hostname}:{parts.port}", auth=login)


def _failure_of(error: Exception) -> TransportFailure:
    if isinstance(error.__context__, ssl.SSLCertVerificationError):
        return _OF_CERTIFICATES.get(error.__context__.verify_code, TransportFailure.CERTIFICATE_NOT_TRUSTED)
    if isinstance(error.__context__, ssl.SSLError):
        return TransportFailure.NO_TLS
    return next(failure for kind, failure in _FAILURES.items() if isinstance(error, kind))


@cache
def authorities(more: Path | None = None) -> ssl.SSLContext:
    """The public certificate authorities and those in the file `more`; reading them takes longer than most calls.

    Raises OSError for a file that cannot be read or holds no certificate in PEM.
    """
    context = httpx2.create_ssl_context(trust_env=False)
    if more is not None:
        context.load_verify_locations(more)
    return context
