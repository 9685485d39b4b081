"""Bulkheads: how many requests of a process wait for slow servers, in all and for one client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Bulkhead:
    """A fixed number of places. Unlike `WaitingPlaces`, no client ever has more than its share of them."""

    def __init__(self, places: int, places_of_client: int) -> None:
        """At most `places` requests wait at the same time, at most `places_of_client` of them for one client."""
        self._places = places
        self._places_of_client = places_of_client
        self._lock = Lock()
        self._held: Counter[str] = Counter()

    @contextmanager
    def place(self, client_id: str) -> Iterator[bool]:
        """A place for the length of the block; False, at once, when there is none for this client."""
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
