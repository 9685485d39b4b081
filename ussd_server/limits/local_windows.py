"""Sliding windows in the memory of a process, for the time that Redis is away."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from ussd_server.limits.sliding_window import Reading, Windows

_MOST_KNOWN = 20_000


class LocalWindows:
    """Sliding windows in the memory of this process, on its monotonic clock.

    They begin with what Redis said of an identity when this process last counted a call of it.
    """

    def __init__(
        self, most_entries: int = 100_000, clock: Callable[[], int] = time.monotonic_ns, processes: int = 1
    ) -> None:
        """At most `most_entries` accept times are kept; above that, the identities unused for longest are dropped.

        `clock` gives nanoseconds that never go back. `processes` share what Redis said was left.
        """
        self._most_entries = most_entries
        self._clock = clock
        self._processes = processes
        self._known: dict[str, tuple[int, Reading]] = {}
        self._entries = 0
        self._logs: OrderedDict[str, list[int]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, name: str, reading: Reading) -> None:
        """Note what Redis says of an identity. Costs each call half a microsecond."""
        if self._logs:
            # Redis is back, and knows more.
            self.clear(name)
        self._known[name] = (self._clock() // 1000, reading)
        if len(self._known) > _MOST_KNOWN:
            self._known.pop(next(iter(self._known)), None)

    def acquire(self, name: str, windows: Windows, consume: bool = True) -> Reading:
        """As `SlidingWindowStorage.acquire`, with a cost of one."""
        with self._lock:
            now = self._clock() // 1000
            times = self._logs.get(name)
            if times is None:
                times = self._known_times(name, windows)
                self._entries += len(times)
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
        self._known.pop(name, None)
        with self._lock:
            self._entries -= len(self._logs.pop(name, []))

    def _known_times(self, name: str, windows: Windows) -> list[int]:
        """Accept times that leave this process its share of what Redis said was left, spread over each window."""
        at, reading = self._known.pop(name, (0, ()))
        times: list[int] = []
        states = [
            (limit, length, *reading[3 + 2 * place : 5 + 2 * place]) for place, (limit, length) in enumerate(windows)
        ]
        for limit, length, remaining, reset in sorted(states, key=lambda state: state[1]) if reading else ():
            missing = limit - min(limit, remaining // self._processes) - sum(time > at - length for time in times)
            oldest = at + reset - length
            times += [oldest + (at - oldest) * place // missing for place in range(1, missing + 1)]
        if times:
            self._logs[name] = sorted(times)
        return sorted(times)

    def _store(self, name: str, times: list[int], replaced: int) -> None:
        self._logs[name] = times
        self._logs.move_to_end(name)
        self._entries += len(times) - replaced
        while self._entries > self._most_entries:
            _, dropped = self._logs.popitem(last=False)
            self._entries -= len(dropped)
