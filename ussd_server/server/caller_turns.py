"""Turns of callers: one that sends much waits for itself, not the others for it."""

from __future__ import annotations

from collections import deque
from typing import Any

from gevent.event import Event


class CallerTurns:
    """Lets each caller begin one piece of work in a turn of the event loop; others wait for later turns, in order.

    A piece is a new connection, a request, or a part of a body in chunks. Nothing waits while the process is idle:
    turns follow each other at once, and are as short as their work.
    """

    def __init__(self, loop: Any) -> None:
        """`loop` is that of gevent's hub."""
        self._next_turn = loop.timer(0.0)
        self._begun: set[str] = set()
        self._waiting: dict[str, deque[Event]] = {}

    def wait(self, caller: str) -> None:
        """Wait until this caller may begin a piece of work."""
        if caller not in self._begun:
            self._begun.add(caller)
            if not self._next_turn.active:
                self._next_turn.start(self._begin_turn)
            return
        turn = Event()
        self._waiting.setdefault(caller, deque()).append(turn)
        turn.wait()

    def _begin_turn(self) -> None:
        self._begun = set(self._waiting)
        for caller in self._begun:
            queue = self._waiting[caller]
            queue.popleft().set()
            if not queue:
                del self._waiting[caller]
        self._next_turn.stop()
        if self._begun:
            self._next_turn.start(self._begin_turn)
