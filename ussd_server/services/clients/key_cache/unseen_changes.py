"""Unseen changes: a count in the database of the changes that could not reach Redis."""

from __future__ import annotations

import time
from collections.abc import Callable

from ussd_server.cached_value import CachedValue
from ussd_server.models.keys import UnseenChanges

# A process reads the count this often, and trusts it for TRUST_SECONDS: a late reading does not block calls.
_REFRESH_SECONDS = 0.5
TRUST_SECONDS = 1.0


class UnseenChangeCount:
    """The count as this process read it last."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._count = CachedValue(_read, _REFRESH_SECONDS, -1, monotonic=monotonic)

    def current(self) -> int | None:
        """Return the count, at most TRUST_SECONDS old; None while another thread takes longer to read it.

        Raises one of `DATABASE_TROUBLE`.
        """
        self._count.refresh()
        # Read the age first: another thread may replace age and count between the two reads.
        return self._count.value if self._count.age_seconds < TRUST_SECONDS else None


def add_unseen_change() -> None:
    """Count one change, within the caller's unit of work."""
    UnseenChanges.update(number=UnseenChanges.number + 1).execute()


def _read() -> int:
    count: int = UnseenChanges.select(UnseenChanges.number).scalar()
    return count
