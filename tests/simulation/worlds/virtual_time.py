"""Replaces the time and the randomness of this process. Import it before anything of `ussd_server`."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

STARTED_AT = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
"""The moment at which every simulated world begins."""

processor_seconds = time.process_time


class VirtualTime:
    """Seconds since the start of the world. `pause` is what a sleep does; the scheduler sets both."""

    def __init__(self) -> None:
        self.now = 0.0
        self.database_ahead = 0.0
        """How far the database's clock is ahead of the true time, in seconds."""
        self.pause: Callable[[float], None] = lambda _: None

    def database_now(self) -> datetime:
        """The time that the database's clock shows (UTC)."""
        return STARTED_AT + timedelta(seconds=self.now + self.database_ahead)


TIME = VirtualTime()


def install() -> None:
    """Let `time` and the sources of random bytes of this process be those of the simulation."""
    time.monotonic = time.perf_counter = lambda: TIME.now
    time.monotonic_ns = lambda: int(TIME.now * 1e9)
    time.time = lambda: STARTED_AT.timestamp() + TIME.now
    time.sleep = lambda seconds: TIME.pause(seconds) if seconds else None
    os.urandom = random.randbytes
    secrets.token_bytes = lambda count=32: random.randbytes(count)
    secrets.token_hex = lambda count=32: random.randbytes(count).hex()
