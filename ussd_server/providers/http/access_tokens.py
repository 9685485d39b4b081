"""Access tokens of a provider: fetched once for all threads, renewed before they expire and when they are refused."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ussd_server.outbound.transport import SendState
from ussd_server.providers.http.breaker import Breaker
from ussd_server.providers.http.replies import NOT_SENT, ProviderReply

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
