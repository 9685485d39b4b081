"""Shares the event loop fairly among callers: a caller that sends much waits, and the others do not."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from gevent.event import Event

# Requests that begin together share a round trip to Redis and a commit: one at a time, a USSD step cost 60 % more.
_MOST_IN_A_TURN = 16
# A request takes some five turns. Processor time, because a turn is no longer for other work on the machine.
_LONG_TURN_SECONDS = 0.006


class CallerTurns:
    """Lets each caller begin up to sixteen pieces of work in a turn of the event loop; others wait, in order.

    A piece of work is a new connection, a request, or a chunk of a body. After a long turn callers begin half as many
    in the next one, after a short turn one more: so pieces that take long begin one by one. Turns follow each other at
    once, so a caller that is alone hardly waits.
    """

    def __init__(self, loop: Any) -> None:
        """`loop` is that of gevent's hub."""
        self._next_turn = loop.timer(0.0)
        self._most, self._turn_began = _MOST_IN_A_TURN, 0.0
        self._begun_in_turn: dict[str, int] = {}
        self._waiting: dict[str, deque[Event]] = {}

    def wait(self, caller: str) -> None:
        """Wait until this caller may begin a piece of work."""
        begun = self._begun_in_turn.get(caller, 0)
        if begun < self._most:
            self._begun_in_turn[caller] = begun + 1
            if not self._next_turn.active:
                self._turn_began = time.thread_time()
                self._next_turn.start(self._begin_turn)
            return
        turn = Event()
        self._waiting.setdefault(caller, deque()).append(turn)
        turn.wait()

    def _begin_turn(self) -> None:
        now = time.thread_time()
        is_long = now - self._turn_began > _LONG_TURN_SECONDS
        self._most = max(1, self._most // 2) if is_long else min(_MOST_IN_A_TURN, self._most + 1)
        self._turn_began = now
        self._begun_in_turn.clear()
        for caller, queue in list(self._waiting.items()):
            self._begun_in_turn[caller] = begun = min(self._most, len(queue))
            for _ in range(begun):
                queue.popleft().set()
            if not queue:
                del self._waiting[caller]
        self._next_turn.stop()
        if self._begun_in_turn:
            self._next_turn.start(self._begin_turn)
