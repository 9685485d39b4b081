"""HTTP with one provider: its breaker, its access tokens, its address, and a time by which every call ends."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ussd_server.outbound.transport import SendState, Transport
from ussd_server.providers.http.replies import NOT_SENT, ProviderReply, is_unavailable, read


class Breaker:
    """Opens after `troubles_to_open` failures in a row; all durations are seconds.

    After `rest_seconds`, one call is let through as a probe: a good reply closes the breaker, a failure opens it for
    another rest. Why it is ours: docs/DECISIONS.md, 18.
    """

    def __init__(
        self,
        troubles_to_open: int = 5,
        rest_seconds: float = 15.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._troubles_to_open = troubles_to_open
        self._rest_seconds = rest_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._troubles = 0
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
        """Count the result of a call."""
        with self._lock:
            if well:
                self._troubles = 0
                self._rests_until = None
                return
            self._troubles += 1
            if self._troubles >= self._troubles_to_open:
                self._rests_until = self._monotonic() + self._rest_seconds


_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")
_RENEW_AT_SHARE_OF_LIFE = 0.8


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    renew_at: float
    expires_at: float


class AccessTokens:
    """The token for one product, shared by all threads.

    `fetch` requests a new token and must return before the given moment. From 80 % of a token's life on one
    thread renews it while the others go on using it; without a usable token the others wait for the one that fetches.
    """

    def __init__(
        self, fetch: Callable[[float], ProviderReply], breaker: Breaker, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._breaker = breaker
        self._monotonic = monotonic
        self._fetching = threading.Lock()
        self._token: _Token | None = None

    def authorise(self, send: Callable[[str], ProviderReply], until: float) -> ProviderReply:
        """Send a request with a token, and once more with a new one after a 401.

        Returns NOT_SENT without a token, and when both were refused: the provider did not process the request.
        """
        for _ in range(2):
            token = self._usable(until)
            if token is None:
                return NOT_SENT
            reply = send(token.text)
            if reply.status != 401:
                return reply
            if self._token is token:
                self._token = None
        self._breaker.note(well=False)
        return NOT_SENT

    def _usable(self, until: float) -> _Token | None:
        token = self._token
        now = self._monotonic()
        if token is not None and now < token.renew_at:
            return token
        still_good = token is not None and now < token.expires_at
        wait_seconds = 0.0 if still_good else max(0.0, until - time.monotonic())
        if not self._fetching.acquire(timeout=wait_seconds):
            return token if still_good else None
        try:
            if self._token is token or self._token is None:
                self._token = self._fetched(until) or (token if still_good else None)
            return self._token
        finally:
            self._fetching.release()

    def _fetched(self, until: float) -> _Token | None:
        asked_at = self._monotonic()
        reply = self._fetch(until)
        text, life_seconds = reply.get("access_token"), _seconds(reply.get("expires_in"))
        if reply.status == 200 and isinstance(text, str) and _TOKEN.fullmatch(text) and life_seconds > 0:
            return _Token(text, asked_at + life_seconds * _RENEW_AT_SHARE_OF_LIFE, asked_at + life_seconds)
        if reply.reach is SendState.ANSWERED:
            # With refused credentials no payment can be sent, so they count like an unavailable provider.
            self._breaker.note(well=False)
        return None


def _seconds(value: object) -> float:
    """A life in seconds given as a number or as text; 0 when it cannot be read."""
    try:
        return min(float(str(value)), 86_400.0)
    except ValueError:
        return 0.0


JSON = {"Content-Type": "application/json"}


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
            self.breaker.note(well=not is_unavailable(reply))
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
