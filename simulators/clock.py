"""A clock that runs like the wall's and can be moved forward by hand."""

import threading
import time
from datetime import UTC, datetime


class Clock:
    """The only clock a stand-in reads: tokens, approvals, expiry and due callbacks follow it."""

    def __init__(self, offset_seconds: float = 0.0) -> None:
        self._lock = threading.Lock()
        self.offset_seconds = offset_seconds

    def now(self) -> float:
        """Seconds since 1970 in UTC, plus everything the clock was moved by."""
        return time.time() + self.offset_seconds

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds`, at once for everybody who reads the clock."""
        with self._lock:
            self.offset_seconds += seconds


def moment(at: float) -> str:
    """Write a moment as the stand-ins show it: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
