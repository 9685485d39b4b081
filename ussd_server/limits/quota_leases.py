"""Quota leases: calls reserved in advance from a shared limit, so that most calls cost no round trip to Redis."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ussd_server.limits.limiter import Limiter

KEPT_SECONDS = 1
"""A lease expires after this time, used or not. A call may happen so long after it was counted, so the window of an
exact limit must be longer by as much."""

_MOST_IDENTITIES = 10_000


@dataclass(slots=True)
class _Lease:
    """The reserved calls of one identity."""

    left: int
    size: int
    ends_at: float  # by the monotonic clock


class QuotaLeases:
    """Counts calls of one policy. The first lease of an identity is one call; each lease used up doubles the next."""

    def __init__(
        self, limiter: Limiter, policy: str, most: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`most` is the largest lease: at most that many unused calls expire in each process each second."""
        self._limiter = limiter
        self._policy = policy
        self._most = most
        self._monotonic = monotonic
        self._leases: dict[str, _Lease] = {}
        self._lock = threading.Lock()

    def take(self, identity: str) -> bool:
        """Count one call of `identity`; False when its limit is reached."""
        with self._lock:
            now = self._monotonic()
            lease = self._current(identity, now)
            if lease is not None and lease.left:
                lease.left -= 1
                return True
            size = 1 if lease is None else min(2 * lease.size, self._most)
        decision = self._limiter.hit(self._policy, identity, size)
        if not decision.accepted and size > 1:
            size = 1
            decision = self._limiter.hit(self._policy, identity)
        if decision.accepted and not decision.fallback:
            # The lease begins before the calls were counted, so that none is used too late.
            self._store(identity, size, now)
        return decision.accepted

    def _store(self, identity: str, size: int, now: float) -> None:
        with self._lock:
            other = self._current(identity, now)
            if other is not None:
                # Another thread has reserved calls since this one looked.
                other.left, other.size = other.left + size - 1, size
                return
            if len(self._leases) >= _MOST_IDENTITIES:
                self._leases.clear()
            self._leases[identity] = _Lease(size - 1, size, now + KEPT_SECONDS)

    def _current(self, identity: str, now: float) -> _Lease | None:
        lease = self._leases.get(identity)
        return lease if lease is not None and now < lease.ends_at else None
