"""What a call does in this thread: our files that it passes, where it writes, and its queries."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

_CHECKOUT = Path(__file__).resolve().parents[2]
_OURS = tuple(f"{_CHECKOUT / folder}/" for folder in ("ussd_server", "schemas"))
_WRITES = re.compile(r"\s*(?:INSERT|UPDATE|DELETE|WITH\b[\s\S]*\b(?:INSERT INTO|UPDATE|DELETE FROM)\b)")


class Passages(NamedTuple):
    """What a call passed in this thread."""

    files: list[str]
    """Our files in the order in which it entered a function of theirs, each as often as it came back."""
    writers: set[str]
    """The files of `services/` that wrote to the database."""


def passages(call: Callable[[], object]) -> Passages:
    """Run a call and note what it passes in this thread."""
    passed = Passages([], set())

    def note(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.startswith(_OURS):
            path = _name(frame)
            if passed.files[-1:] != [path]:
                passed.files.append(path)
            if frame.f_code.co_name == "execute_sql" and _WRITES.match(frame.f_locals["sql"]):
                passed.writers.update(_service_of(frame))

    before = sys.gettrace()
    sys.settrace(note)
    try:
        call()
    finally:
        sys.settrace(before)
    return passed


def _name(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(f"{_CHECKOUT}/")


def _service_of(frame: FrameType | None) -> list[str]:
    """The nearest file of `services/` that waits for a frame, if there is one."""
    while frame is not None:
        if (path := _name(frame)).startswith("ussd_server/services/"):
            return [path]
        frame = frame.f_back
    return []


def count_queries(call: Callable[[], object]) -> int:
    """How many statements a call sends to the database, in this thread."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "execute_sql"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count
