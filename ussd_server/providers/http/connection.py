"""HTTP with one provider: its address, its breaker, its access tokens, and a time by which every call ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from ussd_server.outbound.transport import SendState, Transport
from ussd_server.providers.http.access_tokens import AccessTokens
from ussd_server.providers.http.breaker import Breaker
from ussd_server.providers.http.replies import NOT_SENT, ProviderReply, read

JSON = {"Content-Type": "application/json"}
# These come from a proxy before the provider: the provider itself is unavailable.
_UNAVAILABLE_STATUSES = frozenset({502, 503, 504})


class ProviderConnection:
    """Sends requests to one provider, and none while its breaker is open."""

    def __init__(self, base_url: str, transport: Transport, breaker: Breaker) -> None:
        self._base_url = base_url.rstrip("/")
        self._transport = transport
        self.breaker = breaker

    def call(self, method: str, path: str, headers: Mapping[str, str], body: bytes, until: float) -> ProviderReply:
        """Send one request and read its reply before `until`, a moment of the monotonic clock."""
        remaining_seconds = until - time.monotonic()
        if remaining_seconds <= 0 or not self.breaker.admit():
            return NOT_SENT
        reply = read(
            self._transport.exchange(
                method, self._base_url + path, timeout_seconds=remaining_seconds, headers=headers, body=body
            )
        )
        # A 401 proves nothing: `AccessTokens` tries a new token, and counts refused credentials as a failure.
        if reply.status != 401:
            self.breaker.note(well=not _is_unavailable(reply))
        return reply


class AuthorisedConnection:
    """Sends requests with an access token. A request that the provider refuses with 401 is sent once more."""

    def __init__(
        self,
        connection: ProviderConnection,
        fetch_token: Callable[[float], ProviderReply],
        headers: Mapping[str, str],
        path_prefix: str = "",
    ) -> None:
        """`fetch_token` requests a new token before a moment of the monotonic clock; `headers` go with every call."""
        self._connection = connection
        self._tokens = AccessTokens(fetch_token, connection.breaker)
        self._headers = headers
        self._path_prefix = path_prefix

    def get(self, path: str, until: float) -> ProviderReply:
        return self._call("GET", path, {}, b"", until)

    def post(self, path: str, headers: Mapping[str, str], body: bytes, until: float) -> ProviderReply:
        return self._call("POST", path, {**JSON, **headers}, body, until)

    def _call(self, method: str, path: str, headers: Mapping[str, str], body: bytes, until: float) -> ProviderReply:
        def send(token: str) -> ProviderReply:
            every = {**self._headers, "Authorization": f"Bearer {token}", **headers}
            return self._connection.call(method, self._path_prefix + path, every, body, until)

        return self._tokens.authorise(send, until)


def encode(document: Mapping[str, Any]) -> bytes:
    """A JSON body without spaces."""
    return json.dumps(document, separators=(",", ":")).encode()


def _is_unavailable(reply: ProviderReply) -> bool:
    if reply.reach is not SendState.ANSWERED or reply.status in _UNAVAILABLE_STATUSES:
        return True
    return reply.status >= 500 and not reply.document
