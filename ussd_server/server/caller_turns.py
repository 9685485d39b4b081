"""Shares the event loop fairly among callers: a caller that sends much waits, and the others do not."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gevent.event import Event

# Requests that begin together share a round trip to Redis and a commit: one at a time, a USSD step cost 60 % more.
_MOST_IN_A_TURN = 16
# Pieces that take longer on average begin in smaller groups: as many as fill a turn, because a request takes some five
# turns. Payments and steps take up to 0.8 ms. Processor time, because other work on the machine makes no piece longer.
_USUAL_PIECE_SECONDS = 0.001
_TURN_SECONDS = 0.006
# How much an earlier turn counts in the average, against the turn after it.
_FADING = 0.9


class CallerTurns:
    """Lets each caller begin up to sixteen pieces of work in a turn of the event loop; others wait, in order.

    A piece of work is a new connection, a request, or a chunk of a body. While pieces take long, fewer begin in a turn,
    down to one. A turn ends when the loop has looked for input and run what waited for it before: gevent runs callbacks
    for a millisecond at a time. Turns follow each other at once, so a caller that is alone hardly waits.
    """

    def __init__(self, loop: Any) -> None:
        """`loop` is that of gevent's hub."""
        self._loop = loop
        self._next_turn = loop.timer(0.0)
        self._is_turn = False
        self._most, self._turn_began = _MOST_IN_A_TURN, 0.0
        self._recent_seconds, self._recent_pieces = 0.0, 0.0
        self._begun_in_turn: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, Callable[[], object]]]] = {}

    def wait(self, caller: str) -> None:
        """Wait until this caller may begin a piece of work."""
        if not self._may_begin(caller, 1):
            turn = Event()
            self._waiting.setdefault(caller, deque()).append((1, turn.set))
            turn.wait()

    def begin(self, caller: str, pieces: int, work: Callable[[], object]) -> None:
        """Call `work`, which counts as so many pieces, as soon as this caller may begin it. `work` must not wait."""
        if self._may_begin(caller, pieces):
            work()
        else:
            self._waiting.setdefault(caller, deque()).append((pieces, work))

    def _may_begin(self, caller: str, pieces: int) -> bool:
        begun = self._begun_in_turn.get(caller, 0)
        if begun >= self._most:
            return False
        self._begun_in_turn[caller] = begun + pieces
        if not self._is_turn:
            self._turn_began = time.thread_time()
            self._end_turn_later()
        return True

    def _begin_turn(self) -> None:
        now = time.thread_time()
        self._recent_seconds = _FADING * self._recent_seconds + now - self._turn_began
        self._recent_pieces = _FADING * self._recent_pieces + sum(self._begun_in_turn.values())
        piece_seconds = self._recent_seconds / self._recent_pieces
        is_usual = piece_seconds <= _USUAL_PIECE_SECONDS
        self._most = _MOST_IN_A_TURN if is_usual else max(1, int(_TURN_SECONDS / piece_seconds))
        self._turn_began = now
        self._begun_in_turn.clear()
        for caller, queue in list(self._waiting.items()):
            begun = 0
            while queue and begun < self._most:
                pieces, work = queue.popleft()
                work()
                begun += pieces
            self._begun_in_turn[caller] = begun
            if not queue:
                del self._waiting[caller]
        self._is_turn = False
        if self._begun_in_turn:
            self._end_turn_later()

    def _end_turn_later(self) -> None:
        self._is_turn = True
        self._next_turn.stop()
        self._next_turn.start(self._loop.run_callback, self._begin_turn)
