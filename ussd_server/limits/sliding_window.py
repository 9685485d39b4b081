"""Exact sliding windows: a `limits` strategy that asks one log of accept times about any number of windows at once."""

from __future__ import annotations

import hashlib
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, cast

from limits import RateLimitItem
from limits.storage import Storage
from limits.strategies import RateLimiter
from limits.util import WindowStats
from redis import RedisCluster
from redis.exceptions import NoScriptError

from ussd_server.limits.decisions import MICROSECONDS, RateLimitDecision, Reading
from ussd_server.redis.client import REDIS_TROUBLE, RedisClient, connect
from ussd_server.redis.generations import Generation
from ussd_server.redis.pipeline import RedisPipeline

# (most accepts, length in microseconds) for each window of an identity.
Windows = Sequence[tuple[int, int]]

# The windows of one identity count the same accepts, so one list serves them all: a window of `limit` accepts is full
# while the entry `limit` places back is younger than the window. All or nothing follows, since there is one thing to
# write. The server's clock is the only clock. KEYS[2], where given, holds the version that must be ARGV[3]: the answer
# is empty and nothing is counted when it is another.
SCRIPT = """
if KEYS[2] and redis.call('GET', KEYS[2]) ~= ARGV[3] then return {} end

local log, cost, consume = KEYS[1], tonumber(ARGV[1]), ARGV[2] == '1'
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local length = redis.pcall('LLEN', log)
if type(length) == 'table' then -- Something else sits on this key: it can only be a mistake, and it would stay.
  redis.call('DEL', log)
  length = 0
end

local function accepted_at(index)
  local entry = redis.call('LINDEX', log, index)
  return tonumber(entry) or (entry and tonumber(string.match(entry, '^%d+'))) or 0
end

-- When the clock is set back, the log's own time goes on from its newest accept, so that nothing is forgotten and
-- nobody waits for the old hour. The newest entry says behind a colon how far that time is ahead of the clock.
local newest, ahead = 0, 0
if length > 0 then
  local at, by = string.match(redis.call('LINDEX', log, 0), '^(%d+):?(%d*)$')
  newest, ahead = tonumber(at) or 0, tonumber(by) or 0
  if newest > now + ahead then
    ahead = newest - now
    redis.call('LSET', log, 0, string.format('%.0f:%.0f', newest, ahead))
  end
end
now = now + ahead

-- How many of the `most` newest accepts came after `start`, and when the oldest of those came.
local function held_since(start, most)
  local oldest = most > 0 and accepted_at(most - 1) or 0
  if oldest > start then return most, oldest end
  local low, high = 0, math.max(most - 1, 0)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at = accepted_at(middle)
    if at > start then low, oldest = middle + 1, at else high = middle end
  end
  return low, low > 0 and oldest or now
end

local retry, longest, kept, windows = 0, 0, 0, {}
for i = 4, #ARGV, 2 do
  local limit, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local held, oldest = held_since(now - window, math.min(length, limit))
  if held + cost > limit then retry = math.max(retry, accepted_at(limit - cost) + window - now) end
  longest, kept = math.max(longest, window), math.max(kept, held)
  windows[#windows + 1] = {remaining = limit - held, held = held, reset = oldest + window - now}
end

local taken = (consume and retry == 0) and cost or 0
if taken > 0 then
  for _ = 2, taken do redis.call('LPUSH', log, string.format('%.0f', now)) end
  redis.call('LPUSH', log, string.format(ahead > 0 and '%.0f:%.0f' or '%.0f', now, ahead))
  if length > kept then redis.call('LTRIM', log, 0, kept + taken - 1) end
  redis.call('PEXPIRE', log, math.ceil(longest / 1000))
end

local reading = {retry == 0 and 1 or 0, retry, now - ahead}
for _, window in ipairs(windows) do
  reading[#reading + 1] = window.remaining - taken
  reading[#reading + 1] = window.held + taken > 0 and window.reset or 0
end
return reading
"""
_HEADS = """
local heads, call = {}, redis.call
for i = 1, #KEYS do heads[i] = call('LINDEX', KEYS[i], '0') end
return heads
"""
SCRIPT_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


class SlidingLogStorage(Storage):
    """Keeps each identity's accept times in one Redis list, which one script call reads and extends."""

    STORAGE_SCHEME = ["log+redis", "log+rediss", "log+unix", "log+redis+cluster", "log+redis+sentinel"]  # noqa: RUF012

    def __init__(
        self,
        uri: str,
        wrap_exceptions: bool = False,
        client: RedisClient | None = None,
        timeout_seconds: float = 0.2,
        key_prefix: str = "limit",
    ) -> None:
        """`uri` is an address `connect` takes, with or without the `log+` by which `limits` finds this class."""
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self.key_prefix = key_prefix
        self._url = uri.removeprefix("log+")
        self._timeout_seconds = timeout_seconds
        self._client = client
        self.pipeline = RedisPipeline(lambda: self.client)

    @property
    def client(self) -> RedisClient:
        """The client, made when first used: the service must start while Redis is away."""
        # Two threads may both make one and the later stays. A lock would queue them all behind a frozen server.
        client = self._client or connect(self._url, timeout_seconds=self._timeout_seconds)
        self._client = client
        return client

    def key(self, name: str) -> str:
        """The one Redis key of an identity; its hash tag keeps keys that belong to it on the same cluster node."""
        return f"{self.key_prefix}:{{{name}}}"

    def acquire(
        self, name: str, windows: Windows, cost: int = 1, consume: bool = True, version: Generation | None = None
    ) -> Reading:
        """Take `cost` accepts from all `windows` or from none; only look when not `consume`. 1 <= cost <= every limit.

        With a `version` that is no longer the present one, nothing is decided and the reading is empty.
        Raises one of `REDIS_TROUBLE`.
        """
        keys, run, token = [self.key(name)], None, ""
        if version is not None:
            keys, run, token = [*keys, version.key], version.server_run, version.token
        rest: list[str | int] = [len(keys), *keys, cost, int(consume), token]
        rest += [number for window in windows for number in window]
        try:
            reading = self.pipeline.execute("EVALSHA", SCRIPT_SHA, *rest, within_run=run)
        except NoScriptError:
            # EVAL runs the script and makes it known in one step, so that no flush can come between.
            reading = self.pipeline.execute("EVAL", SCRIPT, *rest, within_run=run)
        return cast(Reading, reading or ())

    def last_accepted_at(self, names: Sequence[str]) -> list[int]:
        """When each identity was last accepted, in microseconds since 1970 by the server's clock; 0 when not known.

        Raises one of `REDIS_TROUBLE`.
        """
        keys = [self.key(name) for name in names]
        heads: list[Any]
        if isinstance(self.client, RedisCluster):
            heads = [self.client.lindex(key, 0) for key in keys]
        else:
            heads = self.pipeline.execute("EVAL", _HEADS, len(keys), *keys)
        return [_clock_time(head or b"0") for head in heads]

    @property
    def base_exceptions(self) -> type[Exception] | tuple[type[Exception], ...]:
        """What a failing server raises."""
        return REDIS_TROUBLE

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Refused: a bare counter cannot tell a sliding window."""
        raise NotImplementedError("a sliding log keeps accept times, not counters: use SlidingLogRateLimiter")

    def get(self, key: str) -> int:
        """How many accept times are kept under `key`."""
        return self.client.llen(self.key(key))

    def get_expiry(self, key: str) -> float:
        """When `key` will be forgotten if nothing more is accepted, in seconds since 1970; now for a missing one."""
        return time.time() + max(self.client.pttl(self.key(key)), 0) / 1000

    def check(self) -> bool:
        """Whether the server answers and takes writes: one that is full or read-only would still answer a ping."""
        try:
            self.acquire("probe", [(1, 1000)])
        except REDIS_TROUBLE:
            return False
        return True

    def reset(self) -> int | None:
        """Forget all identities; give the number of them."""
        forgotten = 0
        for key in self.client.scan_iter(match=f"{self.key_prefix}:*"):
            forgotten += self.client.delete(key)
        return forgotten

    def clear(self, key: str) -> None:
        """Forget what was accepted under `key`."""
        self.client.delete(self.key(key))


def _clock_time(entry: bytes) -> int:
    """When an entry was accepted by the server's clock, which the log's own time may be ahead of."""
    at, _, ahead = entry.partition(b":")
    return int(at) - int(ahead or 0)


class SlidingLogRateLimiter(RateLimiter):
    """The strategy: any list of limits on one identity, exact over every sliding window, decided in one round trip."""

    storage: SlidingLogStorage

    def __init__(self, storage: SlidingLogStorage) -> None:
        """`storage` keeps the logs."""
        super().__init__(storage)

    def hit_all(self, items: Sequence[RateLimitItem], *identifiers: str, cost: int = 1) -> RateLimitDecision:
        """Count `cost` calls against all `items` of the identity, or against none of them."""
        return RateLimitDecision(tuple(items), self.storage.acquire("/".join(identifiers), windows_of(items), cost))

    def count_all_under(
        self, version: Generation, items: Sequence[RateLimitItem], *identifiers: str, consume: bool
    ) -> RateLimitDecision | None:
        """As `hit_all` or `test_all`, in the same trip that proves `version` to be present; None when it is not."""
        reading = self.storage.acquire("/".join(identifiers), windows_of(items), consume=consume, version=version)
        return RateLimitDecision(tuple(items), reading) if reading else None

    def test_all(self, items: Sequence[RateLimitItem], *identifiers: str) -> RateLimitDecision:
        """Tell what `hit_all` would answer, and count nothing."""
        return RateLimitDecision(
            tuple(items), self.storage.acquire("/".join(identifiers), windows_of(items), consume=False)
        )

    def clear_all(self, *identifiers: str) -> None:
        """Forget the identity's calls that `hit_all` counted."""
        self.storage.clear("/".join(identifiers))

    def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Consume `cost` of one limit."""
        return self._asks(item, identifiers, cost, consume=True)

    def test(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Whether `cost` of one limit could be consumed."""
        return self._asks(item, identifiers, cost, consume=False)

    def get_window_stats(self, item: RateLimitItem, *identifiers: str) -> WindowStats:
        """When one limit's oldest accept leaves its window, in the server's seconds since 1970, and what remains."""
        _, _, now, remaining, reset = self.storage.acquire(
            item.key_for(*identifiers), windows_of([item]), consume=False
        )
        return WindowStats((now + reset) / MICROSECONDS, remaining)

    def _asks(self, item: RateLimitItem, identifiers: tuple[str, ...], cost: int, consume: bool) -> bool:
        if cost > item.amount:
            return False
        return bool(self.storage.acquire(item.key_for(*identifiers), windows_of([item]), cost, consume)[0])


def windows_of(items: Sequence[RateLimitItem], share: int = 1) -> Windows:
    """The windows of `items`, each limit divided among `share` processes, at least one accept for each."""
    return [(max(1, item.amount // share), item.get_expiry() * MICROSECONDS) for item in items]


class LocalLog:
    """The same log in this process's memory, on its monotonic clock, for the time that Redis is away."""

    def __init__(self, most_entries: int = 100_000, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """At most `most_entries` accept times are kept; beyond, those of the longest silent identities are dropped.

        `clock` gives nanoseconds that never go back.
        """
        self._most_entries = most_entries
        self._clock = clock
        self._entries = 0
        self._logs: OrderedDict[str, list[int]] = OrderedDict()
        self._deciding = threading.Lock()

    def acquire(self, name: str, windows: Windows, consume: bool = True) -> Reading:
        """As `SlidingLogStorage.acquire`, for a cost of one."""
        with self._deciding:
            now = self._clock() // 1000
            times = self._logs.get(name, [])
            starts = [bisect_right(times, now - length) for _, length in windows]
            retry = max(
                times[len(times) - limit] + length - now if len(times) - start >= limit else 0
                for start, (limit, length) in zip(starts, windows, strict=True)
            )
            taken = int(consume and not retry)
            if taken:
                self._keep(name, [*times[min(starts) :], now], forgotten=len(times))
            reading = [int(not retry), retry, now]
            for start, (limit, length) in zip(starts, windows, strict=True):
                oldest = times[start] if start < len(times) else now
                held = len(times) - start + taken
                reading += [max(limit - held, 0), oldest + length - now if held else 0]
            return reading

    def clear(self, name: str) -> None:
        """Forget what was accepted under `name`."""
        with self._deciding:
            self._entries -= len(self._logs.pop(name, []))

    def _keep(self, name: str, times: list[int], forgotten: int) -> None:
        self._logs[name] = times
        self._logs.move_to_end(name)
        self._entries += len(times) - forgotten
        while self._entries > self._most_entries:
            _, dropped = self._logs.popitem(last=False)
            self._entries -= len(dropped)
