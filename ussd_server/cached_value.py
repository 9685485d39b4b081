"""A value that all threads of a process share, and that one of them reads again from time to time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class CachedValue(Generic[Value]):
    """Reads a value at most once every `refresh_seconds`. While one thread reads, the others get the last value."""

    def __init__(
        self,
        read: Callable[[], Value],
        refresh_seconds: float,
        initial: Value,
        on_change: Callable[[Value], object] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change(value)` is called when the value differs from the one before, `initial` being the first."""
        self._read = read
        self._refresh_seconds = refresh_seconds
        self._on_change = on_change
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._read_at = self._began_at = float("-inf")
        self.value = initial

    @property
    def age_seconds(self) -> float:
        """The age of the value, counted from before it was read; infinite for the initial value."""
        return self._monotonic() - self._began_at

    def refresh(self) -> Value:
        """Return the value, reading it if that is due and no other thread does. Raises what `read` raises."""
        if self._monotonic() - self._read_at >= self._refresh_seconds and self._reading.acquire(blocking=False):
            try:
                began_at = self._monotonic()
                value = self._read()
                self.set(value)
                # Set the age last: no thread may see a new age with the old value.
                self._began_at = began_at
            finally:
                self._reading.release()
        return self.value

    def set(self, value: Value) -> None:
        """Take `value` as if it had been read now; the next reading is due after `refresh_seconds`."""
        self._read_at = self._monotonic()
        changed, self.value = value != self.value, value
        if changed:
            self._on_change(value)
