"""The rate limiter: named policies of exact sliding windows, in Redis, or in each process while Redis is away."""

from __future__ import annotations

import hashlib
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from limits import RateLimitItem

from ussd_server.limits.sliding_window import (
    MICROSECONDS,
    Frames,
    Proof,
    RateLimitDecision,
    Reading,
    SlidingWindowStorage,
    Windows,
    frames_of,
    tightest,
    windows_of,
)
from ussd_server.logs import Logger
from ussd_server.metrics import count_unshared_limit, note_redis
from ussd_server.redis.client import REDIS_ERRORS
from ussd_server.redis.pipeline import Circuit, RedisAwayError

log = Logger(__name__)

_MOST_READINGS = 20_000


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
        self._readings: dict[str, tuple[int, Reading]] = {}
        self._entries = 0
        self._logs: OrderedDict[str, list[int]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, name: str, reading: Reading) -> None:
        """Note what Redis says of an identity. Costs each call half a microsecond."""
        if self._logs:
            # Redis is back, and knows more.
            self.clear(name)
        self._readings[name] = (self._clock() // 1000, reading)
        if len(self._readings) > _MOST_READINGS:
            self._readings.pop(next(iter(self._readings)), None)

    def acquire(self, name: str, windows: Windows, consume: bool = True) -> Reading:
        """As `SlidingWindowStorage.acquire`."""
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
        self._readings.pop(name, None)
        with self._lock:
            self._entries -= len(self._logs.pop(name, []))

    def _known_times(self, name: str, windows: Windows) -> list[int]:
        """Accept times that leave this process its share of what Redis said was left, spread over each window."""
        at, reading = self._readings.pop(name, (0, ()))
        times: list[int] = []
        states = [
            (limit, length, *reading[3 + 2 * index : 5 + 2 * index]) for index, (limit, length) in enumerate(windows)
        ]
        for limit, length, remaining, reset in sorted(states, key=lambda state: state[1]) if reading else ():
            missing = limit - min(limit, remaining // self._processes) - sum(time > at - length for time in times)
            oldest = at + reset - length
            times += [oldest + (at - oldest) * index // missing for index in range(1, missing + 1)]
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


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of one kind of caller: any number of windows; a call must fit into all of them."""

    name: str
    items: tuple[RateLimitItem, ...]


@dataclass(frozen=True, slots=True)
class _Windows:
    frames: Frames
    shared: Windows  # in Redis
    local: Windows  # in each process while Redis is away
    accept_times: LocalWindows


def log_change(away: bool) -> None:
    """Log and count that Redis went away or came back."""
    note_redis(away)
    if away:
        log.warning("Redis is away: every worker limits its own share")
    else:
        log.warning("Redis is back: limits are shared again")


class Limiter:
    """Counts calls by policy and identity and never fails: without Redis each worker allows its share of the limits."""

    def __init__(
        self,
        storage: SlidingWindowStorage,
        policies: Iterable[Policy],
        workers: int,
        on_change: Callable[[bool], None] = log_change,
        rest_seconds: float = 1.0,
    ) -> None:
        """`workers` is the number of processes among which the limits are divided while Redis is away.

        `on_change(away)` is called once each time Redis goes away or comes back and must not raise. While Redis is
        away, a thread probes it every `rest_seconds`.
        """
        self._storage = storage
        self.pipeline = storage.pipeline
        self.circuit = Circuit(storage.check, on_change, rest_seconds)
        self._windows: dict[str, _Windows] = {}
        for policy in policies:
            frames = frames_of(policy.items)
            # A flood of addresses cannot displace the accept times of keys, which have another policy.
            self._windows[policy.name] = _Windows(
                frames, windows_of(frames), windows_of(frames, workers), LocalWindows(processes=workers)
            )

    def is_away(self) -> bool:
        """Whether this process limits without Redis now."""
        return self.circuit.away

    def hit(self, namespace: str, identity: str) -> RateLimitDecision:
        """Count a call of `identity` under the policy `namespace`; a refused call uses up nothing."""
        return self._decide(namespace, identity, consume=True)

    def count_if(self, proof: Proof, namespace: str, identity: str, *, consume: bool) -> RateLimitDecision | None:
        """As `hit`, or `peek` unless `consume`, checking `proof` in the same round trip.

        Returns None, without counting, when the proof does not hold or Redis is away.
        """
        windows, name = self._windows[namespace], _account(namespace, identity)
        try:
            reading = self.circuit.call(self._storage.acquire, name, windows.shared, consume, proof)
        except RedisAwayError:
            return None
        if not reading:
            return None
        windows.accept_times.note(name, reading)
        return RateLimitDecision(windows.frames, reading)

    def last_hits(self, namespace: str, identities: Sequence[str]) -> list[datetime | None]:
        """When each identity was last accepted; None when Redis does not know it any more, or is away."""
        names = [_account(namespace, identity) for identity in identities]
        try:
            times = [] if self.is_away() else self._storage.last_accepted_at(names)
        except REDIS_ERRORS:
            # This failure does not open the circuit: only counted calls decide whether Redis is away.
            times = []
        times = times or [0] * len(names)
        return [datetime.fromtimestamp(time / MICROSECONDS, UTC) if time else None for time in times]

    def peek(self, namespace: str, identity: str) -> RateLimitDecision:
        """The decision of `hit`, without counting."""
        return self._decide(namespace, identity, consume=False)

    def clear(self, namespace: str, identity: str) -> None:
        """Forget the calls of `identity`, in this process and in Redis if it can be reached."""
        name = _account(namespace, identity)
        self._windows[namespace].accept_times.clear(name)
        try:
            self.circuit.call(self._storage.clear, name)
        except RedisAwayError:
            return

    def close(self) -> None:
        """Stop the thread that probes Redis, and close the connections."""
        self.circuit.close()
        self._storage.close()

    def _decide(self, namespace: str, identity: str, *, consume: bool) -> RateLimitDecision:
        windows, name = self._windows[namespace], _account(namespace, identity)
        try:
            reading = self.circuit.call(self._storage.acquire, name, windows.shared, consume)
        except RedisAwayError:
            count_unshared_limit()
            reading = windows.accept_times.acquire(name, windows.local, consume)
            return RateLimitDecision(windows.frames, reading, fallback=True)
        windows.accept_times.note(name, reading)
        return RateLimitDecision(windows.frames, reading)


def _account(namespace: str, identity: str) -> str:
    """The name of an identity in Redis, as a digest: strangers choose its length, and it may be an e-mail address."""
    digest = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{namespace}/{digest}"


@cache
def _policy_header(frames: Frames) -> str:
    return ", ".join([f'"{name}";q={limit};w={seconds}' for name, limit, seconds in frames])


def rate_limit_headers(decision: RateLimitDecision) -> dict[str, str]:
    """The rate limit headers of a reply.

    `RateLimit-Policy` and `RateLimit` show every window, as structured fields (draft-ietf-httpapi-ratelimit-headers);
    `X-RateLimit-*` show the tighter one. All times are seconds from now, as in `Retry-After`.
    """
    windows = decision.windows
    tighter = tightest(windows)
    return {
        "RateLimit-Policy": _policy_header(decision.frames),
        "RateLimit": ", ".join([f'"{each.name}";r={each.remaining};t={each.reset_seconds}' for each in windows]),
        "X-RateLimit-Limit": str(tighter.limit),
        "X-RateLimit-Remaining": str(tighter.remaining),
        "X-RateLimit-Reset": str(tighter.reset_seconds),
    }
