"""Kill points: named places at which fault tests end a process, as a crash would."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def kill_point(name: str | None) -> Callable[[str], None]:
    """Return a function that kills this process when it is called with `name`. None: a function that does nothing."""

    def at(point: str) -> None:
        if point == name:
            os.kill(os.getpid(), signal.SIGKILL)

    return at
