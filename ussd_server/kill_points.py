"""Kill points: named places at which fault tests end a process, as a crash would."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def kill_point(name: str | None) -> Callable[[str], None]:
    """What ends this process at once when it is told the point `name`; None is a point that there is not."""

    def at(point: str) -> None:
        if point == name:
            os.kill(os.getpid(), signal.SIGKILL)

    return at
