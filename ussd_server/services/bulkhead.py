"""Limits how many requests of a process wait or work for long, in total and for each client."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from ussd_server.status import Code, ServiceError


class Permit:
    """A permit to wait. Falsy once it was revoked in favour of another client."""

    __slots__ = ("is_held",)

    def __init__(self) -> None:
        self.is_held = False

    def __bool__(self) -> bool:
        return self.is_held


class Bulkhead:
    """A fixed number of permits, shared fairly between clients."""

    def __init__(self, permits: int, permits_of_client: int | None = None) -> None:
        """At most `permits` requests at a time, at most `permits_of_client` of them for one client.

        None: one client may have all permits until another client needs one. Then the client with the most loses its
        oldest permit to a client with fewer.
        """
        self._free = permits
        self._permits_of_client = permits_of_client
        self._lock = Lock()
        self._held: dict[str, deque[Permit]] = {}

    @contextmanager
    def permit(self, client_id: str) -> Iterator[Permit]:
        """Yield a permit for the length of the block. Never waits: it is false when the client can have none."""
        permit = Permit()
        with self._lock:
            if self._may_take(client_id):
                self._free -= 1
                self._held.setdefault(client_id, deque()).append(permit)
                permit.is_held = True
        try:
            yield permit
        finally:
            with self._lock:
                if permit.is_held:
                    self._held[client_id].remove(permit)
                    self._give_up(client_id, permit)

    @contextmanager
    def reading(self, client_id: str) -> Iterator[None]:
        """Hold a permit while a file is read. SERVICE_UNAVAILABLE when the client can have none."""
        with self.permit(client_id) as has_permit:
            if not has_permit:
                raise ServiceError(
                    Code.SERVICE_UNAVAILABLE,
                    "Other files are being read at this moment; nothing was recorded, send it again",
                    retry_after_seconds=1,
                )
            yield

    def _may_take(self, client_id: str) -> bool:
        if self._permits_of_client is None:
            return self._free > 0 or self._free_permit(client_id)
        return self._free > 0 and len(self._held.get(client_id, ())) < self._permits_of_client

    def _free_permit(self, client_id: str) -> bool:
        """Revoke one permit of the client with most, if that makes the shares more equal. Returns whether it did."""
        largest = max(self._held, key=lambda each: len(self._held[each]), default=None)
        if largest is None or len(self._held[largest]) <= len(self._held.get(client_id, ())) + 1:
            return False
        self._give_up(largest, self._held[largest].popleft())
        return True

    def _give_up(self, client_id: str, permit: Permit) -> None:
        permit.is_held = False
        self._free += 1
        if not self._held[client_id]:
            del self._held[client_id]
