"""Batches: simultaneous items of several threads run together, and each thread gets its own result."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from threading import Event, Lock
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Result(Enum):
    """The outcome of a batch."""

    DONE = auto()
    ALONE = auto()
    UNKNOWN = auto()


class _Batch(Generic[Item]):
    """Items that run together. All of their callers wait for one event: a signal for each would cost twice as much."""

    __slots__ = ("is_over", "items", "result", "turn")

    def __init__(self, first: Item) -> None:
        self.items = [first]
        self.turn = Event()
        self.is_over = Event()
        self.result: _Result | None = None

    def finish(self, result: _Result) -> None:
        self.result = result
        self.is_over.set()
        self.turn.set()


class BatchLostError(Exception):
    """The batch failed and may have been carried out, or it was given up because the one before it failed so."""


class Batches(Generic[Item]):
    """Runs items in batches, one batch at a time. Items of a refused batch run alone, beside the next batch.

    A caller that finds no batch running runs one at once. Callers that arrive during a batch queue for the next one,
    and the first of them runs it. There is no timer and no thread.
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
        # The batches that did not begin yet; callers join the last one.
        self._queue: deque[_Batch[Item]] = deque()
        self._is_running = False

    @property
    def queued(self) -> int:
        """Return how many callers wait for their batch to begin."""
        with self._lock:
            return sum(len(batch.items) for batch in self._queue)

    def do(self, item: Item) -> Sequence[Item]:
        """Return when `item` is done. Returns the items that this thread ran, for what one caller does for all of them.

        When a batch is refused, each caller runs its own item again, alone, and gets its own exception.
        When the outcome of a batch is unknown, its runner gets the exception of `run`, and every other
        caller in the batch or in the queue gets BatchLostError.
        """
        with self._lock:
            batch = self._queue[-1] if self._queue else None
            if batch is not None and len(batch.items) < self._most:
                batch.items.append(item)
                is_first = False
            else:
                batch = _Batch(item)
                self._queue.append(batch)
                is_first = True
                if not self._is_running:
                    self._is_running = True
                    batch.turn.set()
        if is_first:
            batch.turn.wait()
        else:
            batch.is_over.wait()
        if batch.result is None:
            # Only the first caller of a batch wakes before it has a result.
            self._run_batch(batch)
        if batch.result is _Result.UNKNOWN:
            raise BatchLostError
        if batch.result is _Result.ALONE:
            self._run([item])
            return [item]
        return batch.items if is_first else ()

    def _run_batch(self, batch: _Batch[Item]) -> None:
        result = _Result.UNKNOWN
        try:
            # Requests that arrived in the same turn of gevent's hub join before the batch runs.
            time.sleep(0)
            with self._lock:
                self._queue.popleft()
            self._run(batch.items)
            result = _Result.DONE
        except Exception as error:
            if not self._was_undone(error):
                # Those in the queue would only wait for the same trouble, one batch after another.
                self._give_up_queue()
                raise
            if len(batch.items) == 1:
                raise
            result = _Result.ALONE
        finally:
            batch.finish(result)
            self._begin_next(batch)

    def _give_up_queue(self) -> None:
        with self._lock:
            lost = list(self._queue)
            self._queue.clear()
        for batch in lost:
            batch.finish(_Result.UNKNOWN)

    def _begin_next(self, finished: _Batch[Item]) -> None:
        with self._lock:
            if self._queue and self._queue[0] is finished:
                # Its caller was killed before the batch began.
                self._queue.popleft()
            following = self._queue[0] if self._queue else None
            self._is_running = following is not None
        if following is not None:
            following.turn.set()
