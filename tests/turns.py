"""A loop run by hand, in the test's own thread, as the web worker runs its own."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from ussd_server.loop import Loop
from ussd_server.models.base import release_connection

_PATIENCE_SECONDS = 30.0


class Turns:
    """Runs calls in turns and keeps what each came to: its result, or what it raised."""

    def __init__(self, threads: int = 2) -> None:
        self.selector = DefaultSelector()
        self._soon: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._heard, self._word = socket.socketpair()
        self._pools = [ThreadPoolExecutor(threads), ThreadPoolExecutor(2)]
        self.loop = Loop(*self._pools, self.selector, self._call_soon, release_connection)
        self.selector.register(self._heard, EVENT_READ, self._run_soon)
        self.outcomes: dict[int, Any] = {}
        self._begun = 0

    def begin(self, call: Callable[[], Any]) -> int:
        """Begin a call; gives its number."""
        number, self._begun = self._begun, self._begun + 1

        def run() -> None:
            try:
                self.outcomes[number] = call()
            except Exception as error:
                self.outcomes[number] = error

        self.loop.begin(run)
        return number

    def turn(self, seconds: float = 0) -> None:
        """One turn, as the worker takes it; it begins at the latest after `seconds`."""
        for key, _ in self.selector.select(seconds):
            key.data(key.fileobj)
        self.loop.end_turn()

    def run_until(self, is_so: Callable[[], bool]) -> None:
        """Take turns until something is so."""
        ends_at = time.monotonic() + _PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < ends_at, f"only {sorted(self.outcomes)} of {self._begun} calls have ended"
            self.turn(0.1)

    def run(self, *calls: Callable[[], Any]) -> list[Any]:
        """Begin calls in one turn and take turns until all have ended; gives their outcomes in order."""
        numbers = [self.begin(call) for call in calls]
        self.loop.end_turn()
        self.run_until(lambda: self.outcomes.keys() >= set(numbers))
        return [self.outcomes[number] for number in numbers]

    def close(self) -> None:
        """End the threads."""
        for pool in self._pools:
            pool.shutdown()
        self.selector.close()
        self._heard.close()
        self._word.close()

    def _call_soon(self, work: Callable[[], object]) -> None:
        self._soon.put(work)
        self._word.send(b".")

    def _run_soon(self, heard: socket.socket) -> None:
        for _ in heard.recv(4096):
            self._soon.get()()


@contextmanager
def taking_turns(threads: int = 2) -> Iterator[Turns]:
    """A loop of this thread, until the block ends."""
    turns = Turns(threads)
    try:
        yield turns
    finally:
        turns.close()
