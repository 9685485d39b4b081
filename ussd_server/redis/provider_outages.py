"""The noticeboard: what workers let every other process know through Redis, for a few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property

from ussd_server.redis.client import REDIS_TROUBLE, RedisClient, connect

_KEY = "company:away:{}"
_NOTICE_SECONDS = 5
_LOOK_AGAIN_SECONDS = 1.0


class ProviderOutages:
    """Which money companies are away. Only who calls them can know; who takes orders for them wants to."""

    def __init__(self, url: str, is_away: Callable[[], bool], companies: Iterable[str]) -> None:
        """`is_away` tells, without asking Redis, that Redis is known to be away; then nothing is posted or read.

        `companies` are the names that are looked for.
        """
        self._url = url
        self._is_away = is_away
        self._companies = tuple(companies)
        self._looking = threading.Lock()
        self._looked_at = float("-inf")
        self._away: frozenset[str] = frozenset()

    def post_away(self, company: str) -> None:
        """Say that a company is away; the notice fades after seconds unless it is repeated. Never raises."""
        if self._is_away():
            return
        try:
            self._client.set(_KEY.format(company), "1", ex=_NOTICE_SECONDS)
        except REDIS_TROUBLE:
            return

    def is_away(self, company: str) -> bool:
        """Whether a notice says so, at most a second old; False without Redis."""
        # One thread looks, the others go on with what was seen last.
        if time.monotonic() - self._looked_at >= _LOOK_AGAIN_SECONDS and self._looking.acquire(blocking=False):
            try:
                self._away = self._look()
                self._looked_at = time.monotonic()
            finally:
                self._looking.release()
        return company in self._away

    def _look(self) -> frozenset[str]:
        if self._is_away():
            return frozenset()
        try:
            return frozenset(name for name in self._companies if self._client.exists(_KEY.format(name)))
        except REDIS_TROUBLE:
            return frozenset()

    @cached_property
    def _client(self) -> RedisClient:
        return connect(self._url)
