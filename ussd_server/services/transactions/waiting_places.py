"""Waiting places: how many calls of a process wait at a time, shared fairly between clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Place:
    """A call's permission to wait; it ends when `is_held` becomes False."""

    __slots__ = ("is_held",)

    def __init__(self) -> None:
        self.is_held = False


class WaitingPlaces:
    """A fixed number of places. One client may have all of them until other clients want some too."""

    def __init__(self, total: int) -> None:
        """At most `total` calls wait at a time."""
        self._free = total
        self._lock = Lock()
        self._held: dict[str, deque[Place]] = {}

    @contextmanager
    def place(self, client_id: str) -> Iterator[Place]:
        """Yield a place for the length of the block; `is_held` is False when there is none for this client.

        When all are taken, the client with the most places loses its oldest one to a client with fewer.
        """
        place = Place()
        with self._lock:
            if self._free or self._free_place(client_id):
                self._free -= 1
                self._held.setdefault(client_id, deque()).append(place)
                place.is_held = True
        try:
            yield place
        finally:
            with self._lock:
                if place.is_held:
                    self._held[client_id].remove(place)
                    self._give_up(client_id, place)

    def _free_place(self, client_id: str) -> bool:
        """Take a place from the client that has the most, unless `client_id` would then have more than that one."""
        largest = max(self._held, key=lambda each: len(self._held[each]), default=None)
        if largest is None or len(self._held[largest]) <= len(self._held.get(client_id, ())) + 1:
            return False
        self._give_up(largest, self._held[largest].popleft())
        return True

    def _give_up(self, client_id: str, place: Place) -> None:
        """Count a place that was removed from its client's."""
        place.is_held = False
        self._free += 1
        if not self._held[client_id]:
            del self._held[client_id]
