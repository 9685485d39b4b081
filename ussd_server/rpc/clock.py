"""The service's clock: the database's time, carried forward by a clock that nobody can set."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class Clock:
    """Tells the time in UTC.

    The machine's wall clock may be set back or forward while the service runs. `anchor` takes a moment from the
    database, and from then on only the monotonic clock moves the time on, so that rows written by several machines
    agree and no deadline comes early.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.anchor(datetime.now(UTC))

    def anchor(self, moment: datetime) -> None:
        """Take `moment` as the time of now."""
        self._anchor = (moment.replace(microsecond=moment.microsecond // 1000 * 1000), self._monotonic())

    def now(self) -> datetime:
        """The present moment in UTC, whole milliseconds, as rows keep it."""
        base, taken = self._anchor
        return base + timedelta(milliseconds=int((self._monotonic() - taken) * 1000))
