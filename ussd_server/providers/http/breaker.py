"""The circuit breaker of one provider: after several failed calls in a row, none is made for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Breaker:
    """Opens after `troubles_to_open` failures in a row; all durations are seconds.

    After `rest_seconds`, one call is let through as a probe: a good reply closes the breaker, a failure opens it for
    another rest. Why it is ours: docs/DECISIONS.md, 18.
    """

    def __init__(
        self,
        troubles_to_open: int = 5,
        rest_seconds: float = 15.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._troubles_to_open = troubles_to_open
        self._rest_seconds = rest_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._troubles = 0
        self._rests_until: float | None = None

    @property
    def rests(self) -> bool:
        """True while no new payment should be created for the provider."""
        with self._lock:
            return self._rests_until is not None and self._monotonic() < self._rests_until

    def admit(self) -> bool:
        """Whether a call may be made now; the first one after a rest is the probe, and others wait for its result."""
        with self._lock:
            if self._rests_until is None:
                return True
            if self._monotonic() < self._rests_until:
                return False
            self._rests_until = self._monotonic() + self._rest_seconds
            return True

    def note(self, well: bool) -> None:
        """Count the result of a call."""
        with self._lock:
            if well:
                self._troubles = 0
                self._rests_until = None
                return
            self._troubles += 1
            if self._troubles >= self._troubles_to_open:
                self._rests_until = self._monotonic() + self._rest_seconds
