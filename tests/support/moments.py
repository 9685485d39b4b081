"""Runs a function at an exact moment of a test, without sleeping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def before_first(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, act: Callable[[], object]) -> Iterator[None]:
    """Call `act` right before the first call of a method."""
    method, acts = getattr(owner, name), [act]

    def late(*call: Any, **options: Any) -> Any:
        if acts:
            acts.pop()()
        return method(*call, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, late)
        yield
