"""Exact sliding windows: one script checks any number of windows against one list of accept times.

A rate limit decision says whether a call is accepted, and shows the state of its windows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from limits import RateLimitItem
from redis import RedisCluster
from redis.exceptions import NoScriptError

from ussd_server.redis.client import REDIS_ERRORS, RedisClient, connect
from ussd_server.redis.pipeline import RedisPipeline

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


# KEYS[1] lists when the calls of one identity were accepted, newest first. One list serves all its windows: a window is
# full while its `limit`-th newest entry is younger than the window. The Redis server's clock is the only clock.
# ARGV is 1 to count or 0 to read, the proof's token, and each window's limit and length in microseconds.
# KEYS[2], the proof's key if any, must hold the token: otherwise the reply is empty, and nothing is counted.
# Any other reply is a `Reading`.
SCRIPT = """
if KEYS[2] and redis.call('GET', KEYS[2]) ~= ARGV[2] then return {} end

local log, consume = KEYS[1], ARGV[1] == '1'
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local length = redis.pcall('LLEN', log)
if type(length) == 'table' then -- An error: the key holds no list, by mistake, and every later call would fail.
  redis.call('DEL', log)
  length = 0
end

local function accepted_at(index)
  local entry = redis.call('LINDEX', log, index)
  return tonumber(entry) or (entry and tonumber(string.match(entry, '^%d+'))) or 0
end

-- When the clock is set back, the list's own time continues from its newest entry, so that no call is forgotten and no
-- caller waits longer. The newest entry stores behind a colon how far that time is ahead of the clock. After
-- this block `now` is the list's own time.
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

-- How many of the `most` newest entries are younger than `start` (binary search), and the time of the oldest of those.
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
for i = 3, #ARGV, 2 do
  local limit, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local held, oldest = held_since(now - window, math.min(length, limit))
  -- The call fits when at most `limit - 1` entries are left: the next older one must leave the window.
  if held >= limit then retry = math.max(retry, accepted_at(limit - 1) + window - now) end
  longest, kept = math.max(longest, window), math.max(kept, held)
  windows[#windows + 1] = {remaining = limit - held, held = held, reset = oldest + window - now}
end

local taken = (consume and retry == 0) and 1 or 0
if taken > 0 then
  redis.call('LPUSH', log, string.format(ahead > 0 and '%.0f:%.0f' or '%.0f', now, ahead))
  if length > kept then redis.call('LTRIM', log, 0, kept) end
  redis.call('PEXPIRE', log, math.ceil(longest / 1000))
end

local reading = {retry == 0 and 1 or 0, retry, now - ahead}
for _, window in ipairs(windows) do
  reading[#reading + 1] = window.remaining - taken
  reading[#reading + 1] = window.held + taken > 0 and window.reset or 0
end
return reading
"""
_NEWEST_SCRIPT = """
local newest, call = {}, redis.call
for i = 1, #KEYS do newest[i] = call('LINDEX', KEYS[i], '0') end
return newest
"""
SCRIPT_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


class SlidingWindowStorage:
    """Stores each identity's accept times in one Redis list, which one script call reads and extends."""

    def __init__(
        self,
        url: str,
        client: RedisClient | None = None,
        timeout_seconds: float | None = None,
        key_prefix: str = "limit",
    ) -> None:
        """`url` is an address that `connect` accepts."""
        self.key_prefix = key_prefix
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._client = client
        self.pipeline = RedisPipeline(lambda: self.client)

    @property
    def client(self) -> RedisClient:
        """The client, created at its first use: the service must start while Redis is away."""
        # No lock: all threads would wait while one connects to a server that hangs. Two threads may each create a
        # client; the later one stays.
        client = self._client or connect(self._url, timeout_seconds=self._timeout_seconds)
        self._client = client
        return client

    def close(self) -> None:
        self.pipeline.close()
        if self._client is not None:
            self._client.close()

    def key(self, name: str) -> str:
        """The Redis key of an identity; its hash tag keeps the keys of an identity on one cluster node."""
        return f"{self.key_prefix}:{{{name}}}"

    def acquire(self, name: str, windows: Windows, consume: bool = True, proof: Proof | None = None) -> Reading:
        """Count a call in all `windows` or in none; only read them unless `consume`.

        With a `proof` that no longer holds, nothing is counted and the reading is empty.
        Raises one of `REDIS_ERRORS`.
        """
        key, run, numbers = self.key(name), None, _numbers(tuple(windows))
        arguments: tuple[str | int, ...] = (1, key, int(consume), "", *numbers)
        if proof is not None:
            arguments = (2, key, proof.key, int(consume), proof.token, *numbers)
            run = proof.server_run
        try:
            reading = self.pipeline.execute("EVALSHA", SCRIPT_SHA, *arguments, within_run=run)
        except NoScriptError:
            # EVAL runs and caches the script in one step, so that no flush can come between.
            reading = self.pipeline.execute("EVAL", SCRIPT, *arguments, within_run=run)
        return cast(Reading, reading or ())

    def last_accepted_at(self, names: Sequence[str]) -> list[int]:
        """When each identity was last accepted, in microseconds since 1970 by the server's clock; 0 if unknown.

        Raises one of `REDIS_ERRORS`.
        """
        keys = [self.key(name) for name in names]
        newest: list[Any]
        if isinstance(self.client, RedisCluster):
            # The keys may be on several nodes of a cluster, and a script reads those of one node only.
            newest = [self.client.lindex(key, 0) for key in keys]
        else:
            newest = self.pipeline.execute("EVAL", _NEWEST_SCRIPT, len(keys), *keys)
        return [_clock_time(entry or b"0") for entry in newest]

    def check(self) -> bool:
        """Whether the server accepts writes: one that is full or read-only would still answer a ping."""
        try:
            self.acquire("probe", [(1, 1000)])
        except REDIS_ERRORS:
            return False
        return True

    def clear(self, key: str) -> None:
        """Delete the accept times of `key`."""
        self.client.delete(self.key(key))


@cache
def _numbers(windows: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    return tuple(number for window in windows for number in window)


def _clock_time(entry: bytes) -> int:
    """When an entry was accepted, by the server's clock; the list's own time may be ahead of it."""
    at, _, ahead = entry.partition(b":")
    return int(at) - int(ahead or 0)
