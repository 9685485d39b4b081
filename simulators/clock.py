"""A clock that follows the system clock and can be moved forward by hand."""

import threading
import time
from datetime import UTC, datetime


class StandInClock:
    """The only clock a stand-in reads: tokens, approvals, expiry and due callbacks follow it."""

    def __init__(self, offset_seconds: float = 0.0) -> None:
        self._lock = threading.Lock()
        self.offset_seconds = offset_seconds

    def now(self) -> float:
        """Returns seconds since 1970 in UTC, plus all seconds the clock was moved by."""
        return time.time() + self.offset_seconds

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds`; every reader sees it at once."""
        with self._lock:
            self.offset_seconds += seconds


def iso_time(at: float) -> str:
    """Format seconds since 1970 as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
