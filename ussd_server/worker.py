"""The worker: the loop that finishes what requests began. It decides when; services decide what."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

from ussd_server.app import Services, anchor_clock
from ussd_server.models.base import DATABASE_TROUBLE, close_connections, release_connection
from ussd_server.rpc.observe import trace_of

Work = TypeVar("Work")

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.5
_HOUSEKEEPING_SECONDS = 10.0


class Worker:
    """Claims transactions that are due and moves them on, a few at a time; as many processes as wanted may run."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._threads = services.settings.worker_threads
        self._next_housekeeping = 0.0
        self._pause = Event()

    def run(self, stop: Event) -> None:
        """Work until `stop` is set, then finish what was claimed and return."""
        self._pause = stop
        with ThreadPoolExecutor(self._threads, "settlement") as pool:
            busy: set[Future[None]] = set()
            while not stop.is_set():
                busy = {work for work in busy if not work.done()}
                claimed = self._attempt("claim", self._claimer(len(busy))) or []
                busy |= {pool.submit(self._advance, transaction_id) for transaction_id in claimed}
                if busy and len(busy) >= self._threads:
                    wait(busy, timeout=_TICK_SECONDS, return_when="FIRST_COMPLETED")
                elif not claimed:
                    self._services.bell.wait(_TICK_SECONDS, stop)
                self._keep_house()
        release_connection()

    def _claimer(self, busy: int) -> Callable[[], list[str]]:
        return lambda: self._services.settlement.claim(self._threads - busy)

    def _advance(self, transaction_id: str) -> None:
        try:
            self._attempt("advance", lambda: self._services.settlement.advance(transaction_id))
        finally:
            release_connection()

    def _keep_house(self) -> None:
        """What is done now and then: end conversations whose time is over, and follow the database's clock."""
        if time.monotonic() < self._next_housekeeping:
            return
        self._next_housekeeping = time.monotonic() + _HOUSEKEEPING_SECONDS
        anchor_clock(self._services.clock)

    def _attempt(self, what: str, work: Callable[[], Work]) -> Work | None:
        """Do `work`; trouble costs this one step only, because the row stays due and its lease runs out."""
        try:
            return work()
        except DATABASE_TROUBLE as trouble:
            log.warning("the worker could not %s: the database is away (%s)", what, type(trouble).__name__)
            close_connections()
            self._pause.wait(_TICK_SECONDS)
        except Exception as mistake:
            log.error("the worker could not %s by a mistake of ours: %s", what, trace_of(mistake))
        return None


def kill_point(name: str | None) -> Callable[[str], None]:
    """For fault tests: end this process at once, as a crash would, when it comes to the point of that name."""

    def at(point: str) -> None:
        if point == name:
            os.kill(os.getpid(), signal.SIGKILL)

    return at
