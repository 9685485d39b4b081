"""Waiting for what is sure to come, and for no longer than a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENCE_SECONDS = 60.0
# Soon at first, then seldom: what is asked here may be a service that limits how often one may ask.
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _GROWTH = 0.02, 1.0, 1.15


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until `holds`; fail after a minute."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    pause = _SHORTEST_PAUSE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come true within a minute"
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
