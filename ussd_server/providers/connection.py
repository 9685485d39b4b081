"""The line to one money company: its address, its breaker, and a time by which everything is over."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ussd_server.outbound.transport import SendState, Transport
from ussd_server.providers.breaker import Breaker
from ussd_server.providers.replies import NOT_SENT, ProviderReply, read

# A company whose gateway answers in place of its service is away.
_AWAY_STATUSES = frozenset({502, 503, 504})


class ProviderConnection:
    """Speaks HTTP with one company, and leaves it alone while its breaker is open."""

    def __init__(self, base_url: str, transport: Transport, breaker: Breaker) -> None:
        self._base_url = base_url.rstrip("/")
        self._transport = transport
        self.breaker = breaker

    def call(self, method: str, path: str, headers: Mapping[str, str], body: bytes, until: float) -> ProviderReply:
        """Send one request and read its answer before `until`, a moment of the monotonic clock."""
        remaining_seconds = until - time.monotonic()
        if remaining_seconds <= 0 or not self.breaker.admit():
            return NOT_SENT
        reply = read(
            self._transport.exchange(
                method, self._base_url + path, timeout_seconds=remaining_seconds, headers=headers, body=body
            )
        )
        self.breaker.note(well=not _away(reply))
        return reply


def _away(reply: ProviderReply) -> bool:
    if reply.reach is not SendState.ANSWERED or reply.status in _AWAY_STATUSES:
        return True
    return reply.status >= 500 and not reply.document
