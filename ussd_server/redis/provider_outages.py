"""Provider outages: workers report through Redis which providers are away, and all processes see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from ussd_server.cached_value import CachedValue
from ussd_server.redis.client import REDIS_TROUBLE, RedisClient, connect

_KEY = "provider:away:{}"
_REPORT_SECONDS = 5
_REFRESH_SECONDS = 1.0


class ProviderOutages:
    """Which providers are away. Only workers call providers, and web processes need to know."""

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
            self._client.set(_KEY.format(provider), "1", ex=_REPORT_SECONDS)
        except REDIS_TROUBLE:
            return

    def is_away(self, provider: str) -> bool:
        """Whether a worker reports the provider as away, as read at most a second ago; False without Redis."""
        return provider in self._away.refresh()

    def close(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            self._client.close()

    def _read(self) -> frozenset[str]:
        if self._is_redis_away():
            return frozenset()
        try:
            return frozenset(name for name in self._providers if self._client.exists(_KEY.format(name)))
        except REDIS_TROUBLE:
            return frozenset()

    @cached_property
    def _client(self) -> RedisClient:
        return connect(self._url)
