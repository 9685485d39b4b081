"""Sessions as this process last wrote them, so that their next step does not read them."""

from __future__ import annotations

import threading

from ussd_server.models.ussd import UssdSession

MOST_SESSIONS = 4096
"""A session takes a few kilobytes. The cache drops the session that was written longest ago."""

_CacheKey = tuple[str | None, str | None, str]


class SessionCache:
    """Caches the sessions of gateways.

    A cached session may be out of date: `Sessions.write` checks its turn, its channel and its client.
    """

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._rows: dict[_CacheKey, UssdSession] = {}
        self._lock = threading.Lock()

    def take(self, channel_id: str, provider_session_id: str, phone_number: str) -> UssdSession | None:
        """Remove and return a session, so that no other thread uses it; None when it is not cached."""
        with self._lock:
            return self._rows.pop((channel_id, provider_session_id, phone_number), None)

    def keep(self, row: UssdSession) -> None:
        """Add an active session that was just written."""
        with self._lock:
            self._rows[row.channel_id, row.provider_session_id, row.phone_number] = row
            if len(self._rows) > self._most:
                del self._rows[next(iter(self._rows))]
