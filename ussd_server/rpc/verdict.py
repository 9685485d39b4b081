"""What a limiter decides about a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from limits import RateLimitItem

MICROSECONDS = 1_000_000

# What a log answers: accepted (1 or 0), microseconds until a refused cost fits, the log's clock, the time of the last
# accept (0: none), and for each window what remains of it and in how many microseconds its oldest accept leaves it.
Reading = Sequence[int]


@dataclass(frozen=True, slots=True)
class WindowState:
    """One window of an identity after a call."""

    name: str  # minute, hour, or a number and one of them: 5-minute
    limit: int
    window_seconds: int
    remaining: int  # calls that would still be accepted now
    reset_seconds: int  # until `remaining` grows by itself; 0 when the window is empty


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call is accepted, and what its windows look like after it."""

    accepted: bool
    retry_after_seconds: int  # 0 when accepted; a call after so many seconds is accepted if nobody else calls
    windows: tuple[WindowState, ...]
    fallback: bool = False  # decided by this process alone, by its share of the limits
    last_accepted_at: datetime | None = None  # by the server's clock; None when there is none, or in fallback

    @property
    def tighter(self) -> WindowState:
        """The window with the least left; of two that are used up, the one that takes longer to recover."""
        return min(self.windows, key=lambda window: (window.remaining, -window.reset_seconds))


def read_verdict(items: Sequence[RateLimitItem], reading: Reading, fallback: bool = False) -> Verdict:
    """Put a log's reading into whole seconds, rounded up, so that nobody is told to come back too early."""
    accepted, retry, _, last, *left = reading
    states = tuple(
        WindowState(_window_name(item), item.amount, item.get_expiry(), remaining, _whole_seconds(reset))
        for item, remaining, reset in zip(items, left[::2], left[1::2], strict=True)
    )
    last_accepted_at = None if fallback or not last else datetime.fromtimestamp(last / MICROSECONDS, UTC)
    return Verdict(bool(accepted), _whole_seconds(retry), states, fallback, last_accepted_at)


def _whole_seconds(microseconds: int) -> int:
    return -(-microseconds // MICROSECONDS)


def _window_name(item: RateLimitItem) -> str:
    return item.GRANULARITY.name if item.multiples == 1 else f"{item.multiples}-{item.GRANULARITY.name}"
