"""What a limiter decides about a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from limits import RateLimitItem

MICROSECONDS = 1_000_000

# What a log answers: accepted (1 or 0), microseconds until a refused cost fits, the log's clock, and for each window
# what remains of it and in how many microseconds its oldest accept leaves it.
Reading = Sequence[int]


class WindowState(NamedTuple):
    """One window of an identity after a call."""

    name: str  # minute, hour, or a number and one of them: 5-minute
    limit: int
    window_seconds: int
    remaining: int  # calls that would still be accepted now
    reset_seconds: int  # until `remaining` grows by itself; 0 when the window is empty


@dataclass(frozen=True, slots=True)
class RateLimitDecision:
    """Whether a call is accepted, and what its windows look like after it.

    Whole seconds are rounded up, so that nobody is told to come back too early.
    """

    items: tuple[RateLimitItem, ...]
    reading: Reading
    fallback: bool = False  # decided by this process alone, by its share of the limits

    @property
    def accepted(self) -> bool:
        """Whether there was room in every window."""
        return bool(self.reading[0])

    @property
    def retry_after_seconds(self) -> int:
        """0 when accepted; a call after so many seconds is accepted if nobody else calls."""
        return _whole_seconds(self.reading[1])

    @property
    def windows(self) -> tuple[WindowState, ...]:
        """The windows, in the order of their limits."""
        left = iter(self.reading[3:])
        return tuple([WindowState(*frame, next(left), _whole_seconds(next(left))) for frame in frames_of(self.items)])


@cache
def frames_of(items: tuple[RateLimitItem, ...]) -> tuple[tuple[str, int, int], ...]:
    """What is always the same about the windows of a policy: name, limit and length in seconds."""
    return tuple((_window_name(item), item.amount, item.get_expiry()) for item in items)


def tightest(windows: Iterable[WindowState]) -> WindowState:
    """The window with the least left; of two that are used up, the one that takes longer to recover."""
    return min(windows, key=lambda window: (window.remaining, -window.reset_seconds))


def _whole_seconds(microseconds: int) -> int:
    return -(-microseconds // MICROSECONDS)


def _window_name(item: RateLimitItem) -> str:
    return item.GRANULARITY.name if item.multiples == 1 else f"{item.multiples}-{item.GRANULARITY.name}"
