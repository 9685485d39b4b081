"""Access tokens of a provider: fetched once for all threads and processes, and renewed before they expire."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from ussd_server.outbound.transport import SendState
from ussd_server.providers.http.replies import NOT_SENT, ProviderReply, is_token_refused
from ussd_server.providers.http.shared_tokens import SharedToken, Token

_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")
_RENEW_AT_SHARE_OF_LIFE = 0.8
_USUAL_LIFE_SECONDS = 3600.0
# How often a process looks for the token that another one fetches.
_LOOK_SECONDS = 0.05


class AccessTokens:
    """The token for one product, shared by all threads, and through Redis by all processes.

    `fetch` requests a new token and must return before the given moment. From 80 % of a token's life on one thread of
    one process renews it while the others go on using it; without a usable token the others wait for the one that
    fetches. A new token may end the old one at the provider, so a process whose token is refused first takes the one
    that another process fetched.
    """

    def __init__(
        self,
        fetch: Callable[[float], ProviderReply],
        note_access: Callable[[bool], None],
        shared: SharedToken | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`note_access` counts tokens that were granted and refused; `shared` is None for a process with its own."""
        self._fetch = fetch
        self._note_access = note_access
        self._shared = shared
        self._monotonic = monotonic
        self._fetching = threading.Lock()
        self._token: Token | None = None
        self._refusal = ""

    def authorise(self, send: Callable[[str], ProviderReply], until: float) -> ProviderReply:
        """Send a request with a token, and once more with a new one if the provider refuses the token.

        Returns NOT_SENT without a token, and when both were refused: the provider did not process the request. Its
        `refusal` is what the provider said.
        """
        refused = refusal = ""
        for _ in range(2):
            token = self._usable(refused, until)
            if token is None:
                return replace(NOT_SENT, refusal=self._refusal or refusal)
            reply = send(token.text)
            if not is_token_refused(reply):
                return reply
            refused, refusal = token.text, reply.refusal
        self._note_access(False)
        return replace(NOT_SENT, refusal=refusal)

    def _usable(self, refused: str, until: float) -> Token | None:
        """A token that is not `refused`; one past 80 % of its life while another thread or process renews it."""
        token = self._token
        if token is not None and token.text != refused and self._monotonic() < token.renew_at:
            return token
        old = token if token is not None and token.text != refused and self._monotonic() < token.expires_at else None
        wait_seconds = 0.0 if old else max(0.0, until - time.monotonic())
        if not self._fetching.acquire(timeout=wait_seconds):
            return old
        try:
            if self._token is token or self._token is None:
                self._token = self._renewed(refused, until, is_urgent=old is None) or old
            return self._token
        finally:
            self._fetching.release()

    def _renewed(self, refused: str, until: float, *, is_urgent: bool) -> Token | None:
        """The token that another process has fetched, else a new one. None if none came in time."""
        if self._shared is None:
            return self._fetched(until)
        while not self._shared.claim():
            if (token := self._taken(refused)) is not None or not is_urgent:
                return token
            if time.monotonic() + _LOOK_SECONDS >= until:
                return None
            time.sleep(_LOOK_SECONDS)
        try:
            token = self._taken(refused)
            if token is None and (token := self._fetched(until)) is not None:
                self._shared.save(token, self._monotonic())
            return token
        finally:
            self._shared.release()

    def _taken(self, refused: str) -> Token | None:
        """The shared token, unless it is refused or due to be renewed."""
        assert self._shared is not None
        token = self._shared.load(self._monotonic())
        if token is None or token.text == refused or self._monotonic() >= token.renew_at:
            return None
        return token

    def _fetched(self, until: float) -> Token | None:
        asked_at = self._monotonic()
        reply = self._fetch(until)
        text, life_seconds = reply.get("access_token"), _seconds(reply.get("expires_in"))
        if reply.refusal or reply.reach is not SendState.NOT_SENT:
            # While the breaker is open nothing is sent, and the last refusal stays the reason.
            self._refusal = reply.refusal
        if reply.status == 200 and isinstance(text, str) and _TOKEN.fullmatch(text) and life_seconds > 0:
            self._note_access(True)
            return Token(text, asked_at + life_seconds * _RENEW_AT_SHARE_OF_LIFE, asked_at + life_seconds)
        if reply.reach is SendState.ANSWERED:
            # With refused credentials no payment can be sent, so they count like an unavailable provider.
            self._note_access(False)
            self._refusal = reply.refusal or f"HTTP {reply.status}: no access token in the reply"
        return None


def _seconds(value: object) -> float:
    """A life in seconds given as a number or as text: an hour when it is not given, 0 when it cannot be read."""
    if value is None:
        return _USUAL_LIFE_SECONDS
    try:
        return min(float(str(value)), 86_400.0)
    except ValueError:
        return 0.0
