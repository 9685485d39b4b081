"""What a call does in this thread: our files that it passes, our functions that it enters, and its queries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

_CHECKOUT = Path(__file__).resolve().parents[2]
_OURS = tuple(f"{_CHECKOUT / folder}/" for folder in ("ussd_server", "schemas"))


def files_passed(call: Callable[[], object]) -> list[str]:
    """The files of ours in which a call runs a function, in this thread."""
    files = set[str]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.startswith(_OURS):
            files.add(frame.f_code.co_filename.removeprefix(f"{_CHECKOUT}/"))

    before = sys.gettrace()
    sys.settrace(note)
    try:
        call()
    finally:
        sys.settrace(before)
    return sorted(files)


def count_functions(call: Callable[[], object]) -> int:
    """How many times a call enters a function of ours, in this thread."""
    return _count_calls(call, lambda code: code.co_filename.startswith(_OURS))


def count_queries(call: Callable[[], object]) -> int:
    """How many statements a call sends to the database, in this thread."""
    return _count_calls(call, lambda code: code.co_name == "execute_sql")


def _count_calls(call: Callable[[], object], is_counted: Callable[[CodeType], bool]) -> int:
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and is_counted(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count
