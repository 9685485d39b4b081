"""How many connections each web process holds, so that none takes what another would have the time for.

Connections stay open for hours, and who takes them is decided in a moment: without this, one process may hold all.
"""

from __future__ import annotations

import mmap

_MOST_PROCESSES = 64
_BYTES = 4


class ConnectionShares:
    """Shared by a process and all that it forks."""

    def __init__(self) -> None:
        self._held = memoryview(mmap.mmap(-1, _MOST_PROCESSES * _BYTES)).cast("I")

    def tell(self, number: int, connections: int) -> None:
        """Say what the process of that number holds. Processes that live together need numbers close together."""
        self._held[number % _MOST_PROCESSES] = connections + 1

    def leave(self, number: int) -> None:
        """Say that a process takes no more."""
        self._held[number % _MOST_PROCESSES] = 0

    def fewest(self) -> int:
        """What the process holds that holds the least; 0 when there is none."""
        return min([told - 1 for told in self._held if told], default=0)


SHARES = ConnectionShares()
"""Those of gunicorn's main process, which imports this before it forks."""
