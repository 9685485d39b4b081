"""Messages between processes through Redis: which providers are away, and wake-up signals for workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from threading import Event

from ussd_server.redis.client import REDIS_ERRORS, RedisClient, connect
from ussd_server.redis.pipeline import RedisPipeline
from ussd_server.threads import CachedValue

_AWAY_KEY = "provider:away:{}"
_REPORT_SECONDS = 5
_REFRESH_SECONDS = 1.0


class ProviderOutages:
    """The providers that are away. Only workers call providers, and web processes need to know."""

    def __init__(self, url: str, is_redis_away: Callable[[], bool], providers: Iterable[str]) -> None:
        """`is_redis_away` returns, without a round trip, whether Redis is known to be away; then Redis is not used.

        `providers` are the names to look for.
        """
        self._url = url
        self._is_redis_away = is_redis_away
        self._providers = tuple(providers)
        self._away = CachedValue[frozenset[str]](self._read, _REFRESH_SECONDS, frozenset())

    def report_away(self, provider: str) -> None:
        """Report that a provider is away; the report expires after five seconds. Never raises."""
        if self._is_redis_away():
            return
        try:
            self._client.set(_AWAY_KEY.format(provider), "1", ex=_REPORT_SECONDS)
        except REDIS_ERRORS:
            return

    def is_away(self, provider: str) -> bool:
        """Whether a worker reports the provider as away, as read at most a second ago; False without Redis."""
        return provider in self._away.refresh()

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()

    def _read(self) -> frozenset[str]:
        if self._is_redis_away():
            return frozenset()
        try:
            return frozenset(name for name in self._providers if self._client.exists(_AWAY_KEY.format(name)))
        except REDIS_ERRORS:
            return frozenset()

    @cached_property
    def _client(self) -> RedisClient:
        return connect(self._url)


_WAKE_UP_KEY = "worker:wake-up"
_MAX_SIGNALS = 64


class WakeUpSignal:
    """Wakes one of any number of waiting workers."""

    def __init__(self, url: str, pipeline: RedisPipeline, is_away: Callable[[], bool]) -> None:
        """Signals are sent through `pipeline`, together with what else is asked of the server at `url` then.

        `is_away` returns, without a round trip, whether Redis is known to be away; then Redis is not used.
        """
        self._url = url
        self._pipeline = pipeline
        self._is_away = is_away
        self._receiving: RedisClient | None = None

    def send(self) -> None:
        """Wake one worker. Never raises, and does nothing while Redis is known to be away."""
        if self._is_away():
            return
        try:
            if self._pipeline.execute("LPUSH", _WAKE_UP_KEY, "1") > _MAX_SIGNALS:
                # No worker is waiting: keep one signal for the next one that does.
                self._pipeline.execute("LTRIM", _WAKE_UP_KEY, 0, 0)
        except REDIS_ERRORS:
            return

    def wait(self, seconds: float, stop: Event) -> None:
        """Return at a signal or after `seconds`; without Redis, when `stop` is set or after `seconds`."""
        if self._is_away():
            stop.wait(seconds)
            return
        try:
            self._receiver(seconds).brpop([_WAKE_UP_KEY], timeout=seconds)
        except REDIS_ERRORS:
            stop.wait(seconds)

    def close(self) -> None:
        """Close the connection on which `wait` waits; the pipeline stays open."""
        if self._receiving is not None:
            self._receiving.close()

    def _receiver(self, seconds: float) -> RedisClient:
        # A client of its own, because its time-out is longer.
        if self._receiving is None:
            self._receiving = connect(self._url, timeout_seconds=seconds + 1)
        return self._receiving
