"""Batches: simultaneous items of several threads run together, and each thread gets its own result."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from threading import Lock
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Result(Enum):
    """The outcome for a waiting caller."""

    LEAD = auto()
    DONE = auto()
    ALONE = auto()
    UNKNOWN = auto()


class _Place(Generic[Item]):
    """A caller's place in the queue. It waits on a lock, the cheapest of all signals."""

    __slots__ = ("_signal", "item", "result")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.result = _Result.UNKNOWN
        self._signal = Lock()
        self._signal.acquire()

    def wait(self) -> _Result:
        self._signal.acquire()
        return self.result

    def finish(self, result: _Result) -> None:
        self.result = result
        self._signal.release()


class BatchLostError(Exception):
    """The batch failed, and whether it was carried out is unknown."""


class Batches(Generic[Item]):
    """Runs items in batches, one batch at a time.

    A caller who finds no batch running runs one at once, so an idle service waits for nothing. Callers that arrive
    meanwhile queue; the first of them runs the next batch. There is no timer and no thread.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], None],
        most: int = 64,
        was_undone: Callable[[Exception], bool] = lambda _: True,
    ) -> None:
        """`run` carries out all items of a batch, at most `most`, or none, and leaves its results in them.

        `was_undone` returns whether an exception of `run` proves that nothing was carried out.
        """
        self._run = run
        self._most = most
        self._was_undone = was_undone
        self._lock = Lock()
        self._queue: deque[_Place[Item]] = deque()
        self._is_running = False

    @property
    def queued(self) -> int:
        """Return how many callers wait for the next batch."""
        return len(self._queue)

    def do(self, item: Item) -> Sequence[Item]:
        """Return when `item` is done. Returns the items that this thread ran; empty for most callers.

        When a batch is refused, each caller runs its own item again, alone, and gets its own exception.
        When the outcome of a batch is unknown, its runner gets the exception of `run`, and every other
        caller in the batch or in the queue gets BatchLostError.
        """
        with self._lock:
            place = _Place(item) if self._is_running else None
            if place is not None:
                self._queue.append(place)
            self._is_running = True
        result = _Result.LEAD if place is None else place.wait()
        done: Sequence[Item] = ()
        if result is _Result.LEAD:
            result, done = self._lead(item)
        if result is _Result.ALONE:
            done = [item]
            self._run(done)
        elif result is _Result.UNKNOWN:
            raise BatchLostError
        return done

    def _lead(self, item: Item) -> tuple[_Result, Sequence[Item]]:
        """Run a batch, give every caller its outcome, and let the next caller lead."""
        others: list[_Place[Item]] = []
        items = [item]
        result = _Result.UNKNOWN
        try:
            # Requests that arrived in the same turn of gevent's hub join before the batch runs.
            time.sleep(0)
            self._take(others, self._most - 1)
            items += [other.item for other in others]
            self._run(items)
            result = _Result.DONE
        except Exception as error:
            if not self._was_undone(error):
                # Those in the queue would only wait for the same trouble, one batch after another.
                self._take(others, len(others) + len(self._queue))
                raise
            if not others:
                raise
            result = _Result.ALONE
        finally:
            for other in others:
                other.finish(result)
            self._let_next_lead()
        return result, items

    def _take(self, others: list[_Place[Item]], most: int) -> None:
        with self._lock:
            while self._queue and len(others) < most:
                others.append(self._queue.popleft())

    def _let_next_lead(self) -> None:
        with self._lock:
            following = self._queue.popleft() if self._queue else None
            self._is_running = following is not None
        if following is not None:
            following.finish(_Result.LEAD)
