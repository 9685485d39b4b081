"""The service's clock: the database's time, carried forward by the monotonic clock; and pauses between attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from time import monotonic, sleep

_MOST_SLEW = 0.05
"""The most that the clock gains or loses in a second while it is corrected, in seconds: it never goes back by that."""


class Clock:
    """The time in UTC.

    The machine's wall clock may be set back or forward while the service runs. The clock is set once, to a moment of
    the database; from then on the monotonic clock moves it, and `slew` corrects it. Only `anchor` can set it back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        # The moment of the last setting or correction, the monotonic clock then, and what the next second gains.
        self._anchor: tuple[datetime, float, float] | None = None
        self.set_first: Callable[[], None] = lambda: self.anchor(datetime.now(UTC))
        """Sets the clock when it is first read; its errors are raised by `now`."""

    @property
    def is_set(self) -> bool:
        return self._anchor is not None

    def anchor(self, moment: datetime, at: float | None = None) -> None:
        """Take `moment` as the time when the monotonic clock was `at`; None for now."""
        self._anchor = (moment, self._monotonic() if at is None else at, 0.0)

    def slew(self, seconds: float) -> None:
        """Gain `seconds` in the course of the next second, or lose them when negative, but at most 0.05."""
        at = self._monotonic()
        self._anchor = (self.exact(at), at, max(-_MOST_SLEW, min(seconds, _MOST_SLEW)))

    def now(self) -> datetime:
        """The present moment in UTC, whole milliseconds, as rows keep it.

        Raises what `set_first` raises: the database's errors, while it has not been reached since the process started.
        """
        if self._anchor is None:
            self.set_first()
        moment = self.exact()
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def rough(self) -> datetime:
        """As `now`, but the machine's own time while the clock is not set: for display, not for decisions."""
        return self.now() if self.is_set else datetime.now(UTC)

    def exact(self, at: float | None = None) -> datetime:
        """The moment in UTC when the monotonic clock was `at`, in microseconds; None for now. The clock must be set."""
        assert self._anchor is not None
        moment, taken, gain = self._anchor
        elapsed = (self._monotonic() if at is None else at) - taken
        return moment + timedelta(seconds=elapsed + gain * min(1.0, elapsed))


def attempts(seconds: float, first_pause: float, longest_pause: float) -> Iterator[int]:
    """Yield 0, 1, 2 ... with a pause before each but the first, until `seconds` have passed.

    Each pause is twice as long as the one before, from `first_pause` up to `longest_pause`, in seconds. One attempt
    always follows the last pause.
    """
    ends_at, pause = monotonic() + seconds, first_pause
    for attempt in count():
        yield attempt
        if monotonic() >= ends_at:
            return
        sleep(pause)
        pause = min(2 * pause, longest_pause)
