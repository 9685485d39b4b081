"""Native threads, in which a process on gevent runs work that would block all of its requests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

Result = TypeVar("Result")

_MOST_THREADS = 4


def in_native_thread(work: Callable[..., Result], *given: Any, pool: str = "computing") -> Result:
    """Run `work`, which blocks or computes for long, without blocking other requests. Returns or raises what it does.

    In a process that gevent patched, at most four of each `pool` run at the same time. Everywhere else it simply runs.
    Within `work` nothing may be used that gevent patches: no locks, sleeps, sockets, queues or logs.
    """
    threads = _pool(pool)
    if threads is None:
        return work(*given)
    # gevent prints an exception that leaves one of its native threads.
    result, error = threads.apply(_outcome, (work, given))
    try:
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]
    finally:
        # The frames of the failure would live until the garbage collector runs.
        del error


@cache
def is_cooperative() -> bool:
    """Whether the threads of this process are gevent's greenlets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and monkey.is_module_patched("threading")


@cache
def _pool(_name: str) -> Any:
    if not is_cooperative():
        return None
    from gevent.threadpool import ThreadPool

    return ThreadPool(_MOST_THREADS)


def _outcome(work: Callable[..., Result], given: tuple[Any, ...]) -> tuple[Result | None, Exception | None]:
    try:
        return work(*given), None
    except Exception as error:
        return None, error
