"""Many callers at once: threads that start together, and the result of each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ussd_server.database.unit_of_work import release_connection
from ussd_server.status import ServiceError


def at_once(actions: Sequence[Callable[[], Any]], threads: int = 16) -> list[Any]:
    """Run all actions in `threads` threads that begin together; a refusal is returned like a result."""
    threads = min(threads, len(actions))
    together = threading.Barrier(threads)
    began = threading.local()

    def do(operation: Callable[[], Any]) -> Any:
        if not getattr(began, "yes", False):
            began.yes = True
            together.wait(30)
        try:
            return operation()
        except ServiceError as refusal:
            return refusal
        finally:
            release_connection()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, actions))


def refusals(results: Sequence[Any]) -> list[str]:
    """The messages of the refusals."""
    return [result.message for result in results if isinstance(result, ServiceError)]
