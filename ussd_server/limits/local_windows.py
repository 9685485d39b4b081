"""Sliding windows of one process, without Redis."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from ussd_server.limits.decisions import Reading, Windows


class LocalWindows:
    """Sliding windows in the memory of this process, on its monotonic clock, for the time that Redis is away."""

    def __init__(self, most_entries: int = 100_000, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """At most `most_entries` accept times are kept; above that, the identities unused for longest are dropped.

        `clock` gives nanoseconds that never go back.
        """
        self._most_entries = most_entries
        self._clock = clock
        self._entries = 0
        self._logs: OrderedDict[str, list[int]] = OrderedDict()
        self._lock = threading.Lock()

    def acquire(self, name: str, windows: Windows, consume: bool = True) -> Reading:
        """As `SlidingWindowStorage.acquire`, with a cost of one."""
        with self._lock:
            now = self._clock() // 1000
            times = self._logs.get(name, [])
            starts = [bisect_right(times, now - length) for _, length in windows]
            retry = max(
                times[len(times) - limit] + length - now if len(times) - start >= limit else 0
                for start, (limit, length) in zip(starts, windows, strict=True)
            )
            taken = int(consume and not retry)
            if taken:
                self._store(name, [*times[min(starts) :], now], replaced=len(times))
            reading = [int(not retry), retry, now]
            for start, (limit, length) in zip(starts, windows, strict=True):
                oldest = times[start] if start < len(times) else now
                held = len(times) - start + taken
                reading += [max(limit - held, 0), oldest + length - now if held else 0]
            return reading

    def clear(self, name: str) -> None:
        """Delete the accept times of `name`."""
        with self._lock:
            self._entries -= len(self._logs.pop(name, []))

    def _store(self, name: str, times: list[int], replaced: int) -> None:
        self._logs[name] = times
        self._logs.move_to_end(name)
        self._entries += len(times) - replaced
        while self._entries > self._most_entries:
            _, dropped = self._logs.popitem(last=False)
            self._entries -= len(dropped)
