"""Wake-up signals: a Redis list on which workers wait for new work. A lost signal only delays the work a little."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from ussd_server.redis.client import REDIS_TROUBLE, RedisClient, connect
from ussd_server.redis.pipeline import RedisPipeline

_KEY = "worker:wake-up"
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
            if self._pipeline.execute("LPUSH", _KEY, "1") > _MAX_SIGNALS:
                # No worker is waiting: keep one signal for the next one that does.
                self._pipeline.execute("LTRIM", _KEY, 0, 0)
        except REDIS_TROUBLE:
            return

    def wait(self, seconds: float, stop: Event) -> None:
        """Return at a signal or after `seconds`; without Redis, when `stop` is set or after `seconds`."""
        if self._is_away():
            stop.wait(seconds)
            return
        try:
            self._receiver(seconds).brpop([_KEY], timeout=seconds)
        except REDIS_TROUBLE:
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
