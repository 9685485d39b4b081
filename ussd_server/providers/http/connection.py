"""HTTP with one provider: its breaker, its access tokens, its address, and a time by which every call ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ussd_server.outbound.transport import Transport
from ussd_server.providers.http.replies import NOT_SENT, ProviderReply, is_token_refused, is_unavailable, read
from ussd_server.providers.http.shared_tokens import SharedToken
from ussd_server.providers.http.tokens import AccessTokens


class Breaker:
    """Opens after `failures_to_open` failures in a row; all durations are seconds.

    After `rest_seconds`, one call is let through as a probe: a good reply closes the breaker, a failure opens it for
    another rest. Why it is ours: docs/DECISIONS.md, 21.
    """

    def __init__(
        self,
        failures_to_open: int = 5,
        rest_seconds: float = 15.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures_to_open = failures_to_open
        self._rest_seconds = rest_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures = 0
        self._rests_until: float | None = None

    @property
    def rests(self) -> bool:
        """True while no new payment should be created for the provider."""
        with self._lock:
            return self._rests_until is not None and self._monotonic() < self._rests_until

    def admit(self) -> bool:
        """Whether a call may be made now; the first one after a rest is the probe, and others wait for its result."""
        with self._lock:
            if self._rests_until is None:
                return True
            if self._monotonic() < self._rests_until:
                return False
            self._rests_until = self._monotonic() + self._rest_seconds
            return True

    def note(self, well: bool) -> None:
        with self._lock:
            if well:
                self._failures = 0
                self._rests_until = None
                return
            self._failures += 1
            if self._failures >= self._failures_to_open:
                self._rests_until = self._monotonic() + self._rest_seconds


JSON = {"Content-Type": "application/json"}


class ProviderConnection:
    """Sends requests to one provider, and none while its breaker is open."""

    def __init__(self, base_url: str, transport: Transport, breaker: Breaker, secrets: Collection[str] = ()) -> None:
        """`secrets` are left out of what is kept of a refusal."""
        self._base_url = base_url.rstrip("/")
        self._transport = transport
        self._secrets = secrets
        self.refusal = ""
        self.refused_in_a_row = 0
        self.granted_at: float | None = None
        self.breaker = breaker

    def note_access(self, is_granted: bool) -> None:
        """Count a token that was refused, like an unavailable provider; one that is granted ends the row."""
        if is_granted:
            self.refused_in_a_row, self.granted_at = 0, time.monotonic()
        else:
            self.refused_in_a_row += 1
            self.breaker.note(False)

    def call(self, method: str, path: str, headers: Mapping[str, str], body: bytes, until: float) -> ProviderReply:
        """Send one request and read its reply before `until`, a moment of the monotonic clock."""
        remaining_seconds = until - time.monotonic()
        if remaining_seconds <= 0 or not self.breaker.admit():
            return NOT_SENT
        reply = read(
            self._transport.exchange(
                method, self._base_url + path, timeout_seconds=remaining_seconds, headers=headers, body=body
            ),
            self._secrets,
        )
        self.refusal = reply.refusal
        # A refused token proves nothing: `AccessTokens` tries a new one, and counts refused credentials as a failure.
        if not is_token_refused(reply):
            self.breaker.note(well=not is_unavailable(reply))
        return reply


class AuthorisedConnection:
    """Sends requests with an access token. A request whose token the provider refuses is sent once more."""

    def __init__(
        self,
        connection: ProviderConnection,
        fetch_token: Callable[[float], ProviderReply],
        headers: Mapping[str, str],
        path_prefix: str = "",
        shared: SharedToken | None = None,
    ) -> None:
        """`fetch_token` requests a new token before a moment of the monotonic clock; `headers` go with every call.

        `shared` is the token in Redis; None: the process has a token of its own.
        """
        self._connection = connection
        self._tokens = AccessTokens(fetch_token, connection.note_access, shared)
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
