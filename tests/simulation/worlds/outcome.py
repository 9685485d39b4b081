"""What a world leaves: its history, and the counts of points and faults."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A connection that broke, and a step of a phone whose process was frozen while it waited for another step, are logged.
_NO_MISTAKES = ("OperationalError at _strike", "TimeoutError at _answer")
_NO_MISTAKE_OF_A_STEP = "a step failed: the database is away"


@dataclass
class Outcome:
    """What a world left: its history as lines, and the counts of points, faults and calls."""

    history: list[dict[str, Any]]
    points: Counter[tuple[str, str]]
    faults: Counter[tuple[str, str]]

    def text(self) -> str:
        """The history as it is written to a file."""
        return "".join(json.dumps(line, sort_keys=True) + "\n" for line in self.history)

    def digest(self) -> str:
        """Two runs of one plan have the same."""
        return hashlib.sha256(self.text().encode()).hexdigest()


class Mistakes(logging.Handler):
    """Notes what the program logs as a mistake of its own."""

    def __init__(self, note: Callable[..., None]) -> None:
        super().__init__(logging.ERROR)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        line = json.loads(record.getMessage())
        line.pop("at")
        if str(line.get("error", "")).startswith(_NO_MISTAKES) or line["event"] == _NO_MISTAKE_OF_A_STEP:
            return
        self._note("mistake", error=str(line), step="log")
