"""Competitors for the locks of PostgreSQL: they act in the middle of a test's own transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.support.eventually import eventually
from ussd_server.database.unit_of_work import database, release_connection

# Live, unlike pg_stat_activity, of which a transaction keeps its first reading.
_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"

Compete = Callable[[Callable[[], object]], Future[Any]]


@contextmanager
def competing() -> Iterator[Compete]:
    """Yields a function that starts an action in another thread; call it while a unit of work is open.

    The function returns once the action waits for a lock of this thread's transaction, or has ended.
    """
    with ThreadPoolExecutor(2) as pool:

        def compete(action: Callable[[], object]) -> Future[Any]:
            future = pool.submit(_act, action)
            eventually(lambda: future.done() or database.execute_sql(_WAITING).fetchone()[0] > 0)
            return future

        yield compete


def _act(action: Callable[[], object]) -> object:
    try:
        return action()
    finally:
        release_connection()
