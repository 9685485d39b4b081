"""Worlds of many seeds hold every promise, the same seed gives the same history, and planted bugs are found."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import results

_DAYS = 0.2


def test_fifty_worlds_hold_every_promise() -> None:
    found = list(results(range(1, 51), _DAYS, bug=None, jobs=1, shrinks=False))
    assert [(result["seed"], result["violations"]) for result in found if result["violations"]] == []
    assert len(found) == 50


def test_the_same_seed_gives_the_same_history_to_the_byte() -> None:
    (one,), (other,) = (list(results(range(7, 8), _DAYS, bug=None, jobs=1)) for _ in range(2))
    assert one["digest"] == other["digest"]


@pytest.mark.parametrize("bug", ["silence-is-failure"])
def test_a_planted_bug_is_found_and_shown_in_words(bug: str) -> None:
    *_, last = results(range(1, 201), _DAYS, bug, jobs=1)
    assert last["violations"]
    assert any("asks for the" in sentence for sentence in last["words"])
