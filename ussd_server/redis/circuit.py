"""The circuit breaker of Redis."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from ussd_server.redis.client import REDIS_TROUBLE

Reply = TypeVar("Reply")


class RedisAwayError(Exception):
    """Redis cannot be reached now; the caller continues without it."""


class Circuit:
    """Opens at the first failure; a background thread probes Redis and closes the circuit when a probe succeeds.

    So no caller waits for a probe of Redis (docs/DECISIONS.md, 14).
    """

    def __init__(self, probe: Callable[[], bool], on_change: Callable[[bool], None], rest_seconds: float) -> None:
        """`probe` returns whether Redis works; it is called every `rest_seconds` while the circuit is open.

        `on_change(away)` is called once per change of state and must not raise.
        """
        self._probe = probe
        self._on_change = on_change
        self._rest_seconds = rest_seconds
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._prober: threading.Thread | None = None
        self.away = False

    def call(self, work: Callable[[], Reply]) -> Reply:
        """Return the result of `work`. Raises RedisAwayError if Redis fails, and at once while the circuit is open."""
        if self.away:
            self._start_prober()
            raise RedisAwayError
        try:
            return work()
        except REDIS_TROUBLE as error:
            self._open()
            raise RedisAwayError from error

    def close(self) -> None:
        """Stop probing for good, and wait for a probe under way: it could connect after the client was closed."""
        with self._changing:
            self._closed.set()
            prober = self._prober
        if prober is not None:
            prober.join()

    def _open(self) -> None:
        with self._changing:
            if self.away:
                return
            self.away = True
        self._on_change(True)
        self._start_prober()

    def _start_prober(self) -> None:
        # A thread does not survive a fork, so a process that was forked while Redis was away starts its own.
        if self._prober is not None and self._prober.is_alive():
            return
        with self._changing:
            if self.away and not self._closed.is_set() and (self._prober is None or not self._prober.is_alive()):
                self._prober = threading.Thread(target=self._probe_until_back, name="redis-probe", daemon=True)
                self._prober.start()

    def _probe_until_back(self) -> None:
        while not self._closed.wait(self._rest_seconds):
            if self._probe():
                self.away = False
                self._on_change(False)
                return
