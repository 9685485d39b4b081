"""A plugin of pytest: which functions of some files each test reaches and how long it takes, or chosen tests alone."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

REACH_OF = "MUTATION_REACH_OF"
"""Paths of the files whose functions count, one a line."""
REACH = "MUTATION_REACH"
"""Where the reach of each test that passed is written, a JSON object of a line for each."""
CHOSEN = "MUTATION_CHOSEN"
"""A file with the names of the tests to be run, in their order, one a line."""

_FILES = frozenset(os.environ.get(REACH_OF, "").splitlines())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Write which functions the test reached, where that is asked for."""
    if not _FILES:
        return (yield)
    reached: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename in _FILES:
            reached.add((frame.f_code.co_filename, frame.f_code.co_name))

    began, failed = time.perf_counter(), item.session.testsfailed
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        if item.session.testsfailed == failed:
            line = {"test": item.nodeid, "seconds": time.perf_counter() - began, "reached": sorted(reached)}
            with Path(os.environ[REACH]).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(line) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the chosen tests alone, in their order."""
    if CHOSEN in os.environ:
        names = Path(os.environ[CHOSEN]).read_text(encoding="utf-8").split("\n")
        collected = {item.nodeid: item for item in items}
        items[:] = [collected[name] for name in names if name in collected]
