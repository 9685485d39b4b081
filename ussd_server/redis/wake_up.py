"""The bell that wakes workers when there is new work; the rows remain the truth, so a lost ring only costs a moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Event

from ussd_server.redis.client import REDIS_TROUBLE, RedisClient, RedisPipeline, connect

_KEY = "worker:bell"
_MOST_RINGS = 64


class WakeUpSignal:
    """A short Redis list on which any number of workers wait."""

    def __init__(self, url: str, is_away: Callable[[], bool]) -> None:
        """`is_away` tells, without asking Redis, that Redis is known to be away; then nobody waits for it."""
        self._url = url
        self._is_away = is_away
        self._line = RedisPipeline(lambda: self._ringer)

    def ring(self) -> None:
        """Wake one worker. Never raises and never waits for a Redis that is known to be away."""
        if self._is_away():
            return
        try:
            if self._line.ask("LPUSH", _KEY, "1") > _MOST_RINGS:
                self._line.ask("LTRIM", _KEY, 0, _MOST_RINGS - 1)
        except REDIS_TROUBLE:
            return

    def wait(self, seconds: float, stop: Event) -> None:
        """Return at a ring, or after `seconds`; without Redis, when `stop` is set or after `seconds`."""
        if self._is_away():
            stop.wait(seconds)
            return
        try:
            self._listener(seconds).brpop([_KEY], timeout=seconds)
        except REDIS_TROUBLE:
            stop.wait(seconds)

    @cached_property
    def _ringer(self) -> RedisClient:
        return connect(self._url)

    def _listener(self, seconds: float) -> RedisClient:
        # A client of its own: it must wait longer than one that a caller waits for.
        if "_listening" not in self.__dict__:
            self._listening = connect(self._url, timeout_seconds=seconds + 1)
        return self._listening
