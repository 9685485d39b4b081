"""Allowances: calls taken from a shared limit a few at a time, so that not each costs a trip to Redis."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ussd_server.limits.limiter import Limiter

KEPT_SECONDS = 1
"""What is taken is gone after so long, used or not. A window that must never hold more than its limit has to be longer
by this much, because a call may be used so long after it was counted."""

_MOST_IDENTITIES = 10_000


@dataclass(slots=True)
class _Held:
    """What one identity has in hand."""

    left: int
    size: int
    ends_at: float  # by the monotonic clock


class QuotaLeases:
    """Counts calls of one policy: the first alone; whoever uses up what it took takes twice as much next time."""

    def __init__(
        self, limiter: Limiter, policy: str, most: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """At most `most` calls are taken at a time: so many may lapse in each process each second."""
        self._limiter = limiter
        self._policy = policy
        self._most = most
        self._monotonic = monotonic
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def take(self, identity: str) -> bool:
        """Count one call of `identity`; False when its limit is used up."""
        with self._lock:
            now = self._monotonic()
            held = self._fresh(identity, now)
            if held is not None and held.left:
                held.left -= 1
                return True
            size = 1 if held is None else min(2 * held.size, self._most)
        decision = self._limiter.hit(self._policy, identity, size)
        if not decision.accepted and size > 1:
            size = 1
            decision = self._limiter.hit(self._policy, identity)
        if decision.accepted and not decision.fallback:
            # Time runs from before the calls were counted, so that none is used later than it may be.
            self._hold(identity, size, now)
        return decision.accepted

    def _hold(self, identity: str, size: int, now: float) -> None:
        with self._lock:
            beside = self._fresh(identity, now)
            if beside is not None:
                # Another thread took some meanwhile.
                beside.left, beside.size = beside.left + size - 1, size
                return
            if len(self._held) >= _MOST_IDENTITIES:
                self._held.clear()
            self._held[identity] = _Held(size - 1, size, now + KEPT_SECONDS)

    def _fresh(self, identity: str, now: float) -> _Held | None:
        held = self._held.get(identity)
        return held if held is not None and now < held.ends_at else None
