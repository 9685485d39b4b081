"""How many connections each web process holds, so that no process takes more than its share.

Connections stay open for hours and are accepted within milliseconds: without this, one process may hold all of them.
"""

from __future__ import annotations

import mmap
import os
import time

_MOST_PROCESSES = 64
# At most half of the live processes are new after a reload.
_MOST_SUCCESSORS = _MOST_PROCESSES // 2
_BYTES = 4
# How long a process leaves a connection to processes that hold fewer. Short, because those processes may be stuck.
_LEAVE_SECONDS = 0.002
# A process with many connections may hold a fourth more than another one: it accepts a crowd at once.
_PART_AHEAD = 4


class ConnectionShares:
    """The numbers of connections, shared by a process and all that it forks."""

    def __init__(self) -> None:
        self._held = memoryview(mmap.mmap(-1, _MOST_PROCESSES * _BYTES)).cast("I")
        self._replaced = memoryview(mmap.mmap(-1, _BYTES)).cast("I")

    def set(self, number: int, connections: int) -> None:
        """Store what process `number` holds. Processes that live at the same time need numbers close together."""
        self._held[number % _MOST_PROCESSES] = connections + 1

    def leave(self, number: int) -> None:
        """Store that process `number` accepts no more connections."""
        self._held[number % _MOST_PROCESSES] = 0

    def replace(self, number: int) -> None:
        """Store that all processes up to `number` are being replaced by later ones."""
        self._replaced[0] = number

    def is_needed(self, number: int) -> bool:
        """Return whether process `number` is being replaced, and none of those that replace it accepts connections."""
        last = self._replaced[0]
        later = range(last + 1, last + 1 + _MOST_SUCCESSORS)
        return number <= last and not any(self._held[each % _MOST_PROCESSES] for each in later)

    def fewest(self) -> int:
        """Return the smallest number that a process holds, 0 without processes."""
        return min([stored - 1 for stored in self._held if stored], default=0)


class ConnectionShare:
    """The connections of one process."""

    def __init__(self, shares: ConnectionShares, number: int) -> None:
        self._shares, self._number = shares, number
        self._connections = 0
        self._is_open = True
        self._left_since = 0.0
        shares.set(number, 0)

    def add(self, connections: int) -> None:
        """Count connections that began, or with -1 one that ended."""
        self._connections += connections
        if self._is_open:
            self._shares.set(self._number, self._connections)

    def leave(self) -> None:
        """Accept all connections that still wait, and stop counting."""
        self._is_open = False
        self._shares.leave(self._number)

    def may_accept(self) -> bool:
        """Return whether to accept a connection now, or to leave it to a process that holds fewer."""
        ahead = self._connections // _PART_AHEAD
        if self._is_open and self._connections - ahead > self._shares.fewest():
            now = time.monotonic()
            self._left_since = self._left_since or now
            if now - self._left_since < _LEAVE_SECONDS:
                os.sched_yield()
                return False
        self._left_since = 0.0
        return True


SHARES = ConnectionShares()
"""The shares of gunicorn's main process, which imports this module before it forks."""
