"""Drop-offs: sessions that ended before their last screen. Each process counts those that it ends."""

from __future__ import annotations

import threading
from collections import Counter

from ussd_server.metrics import count_drop_off
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.documents import published_document

MOST_PLACES = 200
"""A process counts this many places; the nodes of all others count as `(other)`."""

Place = tuple[str, str, str, str]


class DropOffs:
    """Counts drop-offs by code, menu, node and reason."""

    def __init__(self) -> None:
        self._counts: Counter[Place] = Counter()
        self._lock = threading.Lock()

    def count(self, row: UssdSession) -> None:
        """Count a session that was just ended, unless the console's phone dialled it."""
        if row.is_test:
            return
        menu = published_document(row.menu_id, row.menu_version).id
        place = (row.service_code, menu, row.node, str(row.end_reason))
        with self._lock:
            if place not in self._counts and len(self._counts) >= MOST_PLACES:
                place = ("(other)", "(other)", "(other)", str(row.end_reason))
            self._counts[place] += 1
        count_drop_off(*place)

    def counts(self) -> list[tuple[Place, int]]:
        """Return the count of each place since the process started."""
        with self._lock:
            return sorted(self._counts.items())
