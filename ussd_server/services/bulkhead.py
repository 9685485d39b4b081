"""A bound on the requests of a process that wait for slow servers, in all and for each client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Bulkhead:
    """A fixed number of places. Unlike in `WaitingPlaces`, a client never holds more than its share."""

    def __init__(self, places: int, places_of_client: int) -> None:
        """At most `places` requests wait at a time, at most `places_of_client` of them for one client."""
        self._places = places
        self._places_of_client = places_of_client
        self._lock = Lock()
        self._held: Counter[str] = Counter()

    @contextmanager
    def place(self, client_id: str) -> Iterator[bool]:
        """Hold a place during the block. Yields False, without waiting, when none is free for this client."""
        has_place = self._take(client_id)
        try:
            yield has_place
        finally:
            if has_place:
                with self._lock:
                    self._held[client_id] -= 1
                    if not self._held[client_id]:
                        del self._held[client_id]

    def _take(self, client_id: str) -> bool:
        with self._lock:
            is_free = self._held[client_id] < self._places_of_client and self._held.total() < self._places
            if is_free:
                self._held[client_id] += 1
            elif not self._held[client_id]:
                del self._held[client_id]
            return is_free
