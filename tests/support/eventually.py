"""Waits for a condition that must become true, for at most a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENCE_SECONDS = 60.0
# Check soon at first, then rarely: the condition may call a service with rate limits.
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _GROWTH = 0.02, 1.0, 1.15


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until `holds`; fail after a minute."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    pause = _SHORTEST_PAUSE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come true within a minute"
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
