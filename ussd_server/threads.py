"""Shared by the threads of a process: batches of items, cached values, turns, pauses of long work, native threads."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from functools import cache
from threading import Event, Lock
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class _Result(Enum):
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
        """Return when `item` is done. Returns the items that this thread ran: one caller can then act for all of them.

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
                # Fail the queued batches too: they would probably wait for the same error, one after another.
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


Value = TypeVar("Value")
_END: Any = object()


class CachedValue(Generic[Value]):
    """Reads a value at most once every `refresh_seconds`. While one thread reads, the others get the last value."""

    def __init__(
        self,
        read: Callable[[], Value],
        refresh_seconds: float,
        initial: Value,
        on_change: Callable[[Value], object] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change(value)` is called when the value differs from the one before, `initial` being the first."""
        self._read = read
        self._refresh_seconds = refresh_seconds
        self._on_change = on_change
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._read_at = self._began_at = float("-inf")
        self.value = initial

    @property
    def age_seconds(self) -> float:
        """The age of the value, counted from before it was read; infinite for the initial value."""
        return self._monotonic() - self._began_at

    def refresh(self) -> Value:
        """Return the value, reading it if that is due and no other thread does. Raises what `read` raises."""
        if self._monotonic() - self._read_at >= self._refresh_seconds and self._reading.acquire(blocking=False):
            try:
                began_at = self._monotonic()
                value = self._read()
                self.set(value)
                # Set the age last: no thread may see a new age with the old value.
                self._began_at = began_at
            finally:
                self._reading.release()
        return self.value

    def set(self, value: Value) -> None:
        """Take `value` as if it had been read now; the next reading is due after `refresh_seconds`."""
        self._read_at = self._monotonic()
        changed, self.value = value != self.value, value
        if changed:
            self._on_change(value)


class RepeatedWork:
    """Does work every so many seconds, in a thread that `start` begins, and once more in `close`."""

    def __init__(
        self, name: str, seconds: float, work: Callable[[], object], fail: Callable[[Exception], None]
    ) -> None:
        """`name` is the thread's; `fail` is called with what `work` raises."""
        self._name, self._seconds, self._work, self._fail = name, seconds, work, fail
        self._is_closed = Event()
        self._starting = Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin the thread, unless it runs."""
        if self._thread is not None:
            return
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._repeat, name=self._name, daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def close(self) -> None:
        """End the thread, and do the work a last time."""
        atexit.unregister(self.close)
        self._is_closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._do()

    def _repeat(self) -> None:
        while not self._is_closed.wait(self._seconds):
            self._do()

    def _do(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._fail(error)


class Turns:
    """Lets at most so many threads work at a time. A thread lends its turn to another one while it is in `waiting()`.

    So a process needs no more processors and database connections than it has turns, and slow remote servers or slow
    hashes do not delay its other work.
    """

    _mine = threading.local()

    def __init__(self, most: int) -> None:
        self._free = threading.Semaphore(most)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Wait for a turn, and hold it for the length of the block."""
        with self._free:
            self._mine.turns = self
            try:
                yield
            finally:
                self._mine.turns = None

    @classmethod
    @contextmanager
    def waiting(cls) -> Iterator[None]:
        """Lend the turn of this thread for the length of the block. A thread without a turn has nothing to lend."""
        turns = getattr(cls._mine, "turns", None)
        if turns is None:
            yield
            return
        turns._free.release()
        try:
            yield
        finally:
            turns._free.acquire()

    @classmethod
    def pauses(cls, items: Iterator[Value]) -> Iterator[Value]:
        """Yield the items, and lend the turn of this thread while the iterator waits for the next one."""
        while True:
            with cls.waiting():
                item = next(items, _END)
            if item is _END:
                return
            yield item


# After a sleep of no time, gevent would not look at sockets.
_SECONDS_BEFORE_A_PAUSE, _PAUSE_SECONDS = 0.005, 0.000_001


def with_pauses(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items of a long computation, and let other requests of this process run every 5 ms."""
    pause_at = time.monotonic() + _SECONDS_BEFORE_A_PAUSE
    for item in items:
        if time.monotonic() >= pause_at:
            time.sleep(_PAUSE_SECONDS)
            pause_at = time.monotonic() + _SECONDS_BEFORE_A_PAUSE
        yield item


Result = TypeVar("Result")

# SQLite and hashes run beside Python's interpreter. Computations in Python take it from each other and from requests:
# one at a time is as fast as four.
_MOST_THREADS, _MOST_COMPUTING = 4, 1


def in_native_thread(work: Callable[..., Result], *arguments: Any, pool: str = "computing") -> Result:
    """Run `work`, which blocks or computes for long, without blocking other requests. Returns what it returns.

    In a process that gevent patched, at most four of each `pool` run at the same time, and one of "documents", which
    are computed in Python; elsewhere this thread runs it.
    `work` must not use anything that gevent patches: no locks, sleeps, sockets, queues or logs.
    """
    threads = _pool(pool)
    if threads is None:
        return work(*arguments)
    # gevent prints an exception that leaves one of its native threads.
    result, error = threads.apply(_outcome, (work, arguments))
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
def _pool(name: str) -> Any:
    if not is_cooperative():
        return None
    from gevent.threadpool import ThreadPool

    return ThreadPool(_MOST_COMPUTING if name == "documents" else _MOST_THREADS)


def _outcome(work: Callable[..., Result], arguments: tuple[Any, ...]) -> tuple[Result | None, Exception | None]:
    try:
        return work(*arguments), None
    except Exception as error:
        return None, error
