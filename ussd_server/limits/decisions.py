"""Rate limit decisions: whether a call is accepted, and the state of its windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from limits import RateLimitItem

MICROSECONDS = 1_000_000

# The refusal of a data call, word for word from the wire contract: by its key's limits or by its address's.
DATA_CALL_REFUSED = "Rate limit exceeded. Maximum 100 requests per minute (1000 per hour) allowed."

# (name, limit, length in seconds) of each window of a policy; the same for all decisions under it.
Frames = tuple[tuple[str, int, int], ...]

# (limit, length in microseconds) of each window of an identity.
Windows = Sequence[tuple[int, int]]

# Accepted (1 or 0), microseconds until a refused call fits, the clock, and for each window the remaining calls and the
# microseconds until its oldest call leaves it.
Reading = Sequence[int]


class Proof(NamedTuple):
    """Holds while the Redis key has this value in this run of the server (`RedisPipeline.server_run`)."""

    key: str
    token: str
    server_run: str


class WindowState(NamedTuple):
    """One window of an identity after a call."""

    name: str  # minute, hour, or a number and one of them: 5-minute
    limit: int
    remaining: int  # calls that would still be accepted now
    reset_seconds: int  # until `remaining` grows by itself; 0 when the window is empty


class RateLimitDecision(NamedTuple):
    """Whether a call is accepted, and the state of its windows after it.

    Seconds are rounded up, so that no caller retries too early.
    """

    frames: Frames
    reading: Reading
    fallback: bool = False  # decided without Redis, by this process's share of the limits

    @property
    def accepted(self) -> bool:
        """Whether the call fitted into every window."""
        return bool(self.reading[0])

    @property
    def retry_after_seconds(self) -> int:
        """Seconds until a call of this identity fits, if it makes no other; 0 when accepted."""
        return _whole_seconds(self.reading[1])

    @property
    def windows(self) -> tuple[WindowState, ...]:
        """The windows, in the order of their limits."""
        left = iter(self.reading[3:])
        return tuple(
            [WindowState(name, limit, next(left), _whole_seconds(next(left))) for name, limit, _ in self.frames]
        )


def windows_of(frames: Frames, share: int = 1) -> Windows:
    """The windows of `frames`, each limit divided among `share` processes and at least one."""
    return [(max(1, limit // share), seconds * MICROSECONDS) for _, limit, seconds in frames]


def frames_of(items: tuple[RateLimitItem, ...]) -> Frames:
    """The constant part of the windows of a policy."""
    return tuple((_window_name(item), item.amount, item.get_expiry()) for item in items)


def tightest(windows: Iterable[WindowState]) -> WindowState:
    """The window with the fewest remaining calls; of two that are full, the one that resets later."""
    return min(windows, key=lambda window: (window.remaining, -window.reset_seconds))


def _whole_seconds(microseconds: int) -> int:
    return -(-microseconds // MICROSECONDS)


def _window_name(item: RateLimitItem) -> str:
    return item.GRANULARITY.name if item.multiples == 1 else f"{item.multiples}-{item.GRANULARITY.name}"
