"""Waiting for what is sure to come, and for no longer than a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.02


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until `holds`; fail after a minute."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come true within a minute"
        time.sleep(_PAUSE_SECONDS)
