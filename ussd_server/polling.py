"""Polling: repeat a check until it succeeds or the time is over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from time import monotonic, sleep


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
