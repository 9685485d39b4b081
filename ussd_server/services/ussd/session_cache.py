"""Sessions as this process left them, so that the next step of one need not read it first."""

from __future__ import annotations

import threading

from ussd_server.models.ussd import UssdSession

MOST_SESSIONS = 4096
"""A session takes a few kilobytes; the one that rested longest makes room."""

_Name = tuple[str | None, str | None, str]


class SessionCache:
    """Remembers sessions of phone companies. What is remembered may be old: only a write that finds the session as it
    is remembered, its channel open and its client active, proves that it was not."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._rows: dict[_Name, UssdSession] = {}
        self._lock = threading.Lock()

    def take(self, channel_id: str, provider_session_id: str, phone_number: str) -> UssdSession | None:
        """Give a session away, so that no other thread works with the same one; None when it is not remembered."""
        with self._lock:
            return self._rows.pop((channel_id, provider_session_id, phone_number), None)

    def keep(self, row: UssdSession) -> None:
        """Remember a session that is under way as it was just written."""
        with self._lock:
            self._rows[row.channel_id, row.provider_session_id, row.phone_number] = row
            if len(self._rows) > self._most:
                del self._rows[next(iter(self._rows))]
