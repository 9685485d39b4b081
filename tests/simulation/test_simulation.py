"""Worlds of many seeds hold every promise, the same seed gives the same history, and planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.__main__ import results
from tests.simulation.worlds.bugs import BUGS, planted
from tests.simulation.worlds.money_bugs import MONEY_BUGS

_DAYS = 0.15
_DAYS_OF_GATES = 0.6
_DAYS_OF_PAYOUTS = 0.5
# A world of money closes days, so that it needs a whole one.
_DAYS_OF_MONEY = 1.0
_SEEDS_OF_MONEY = range(1, 13)
_SEEDS = 50
_SAME = 7


@pytest.fixture(scope="module")
def seeds(tries: Callable[[int], int]) -> range:
    return range(1, 1 + tries(_SEEDS))


@pytest.fixture(scope="module")
def worlds(seeds: range) -> list[dict[str, Any]]:
    """The results of the seeds, in their order; two processes share them."""
    return sorted(results(seeds, _DAYS, bug=None, jobs=2, shrinks=False), key=lambda result: result["seed"])


def test_worlds_hold_every_promise(seeds: range, worlds: list[dict[str, Any]]) -> None:
    assert [(result["seed"], result["violations"]) for result in worlds if result["violations"]] == []
    assert len(worlds) == len(seeds)
    assert sum(result["lines"].get("lost", 0) for result in worlds) > len(seeds) / 2


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_history_to_the_byte(seeds: range, worlds: list[dict[str, Any]]) -> None:
    (again,) = results(range(_SAME, _SAME + 1), _DAYS, bug=None, jobs=1)
    assert again["digest"] == worlds[_SAME - seeds.start]["digest"]


def test_every_bug_can_be_planted() -> None:
    for name in BUGS:
        with planted(name):
            pass


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("bug", "rule", "first"),
    [
        ("unwritten-receipt", "counted_once", 1),
        ("unwritten-receipt", "every_movement_is_used_once", 1),
        ("menu-beyond-limit", "gate_holds", 1),
        ("limit-forgotten", "gate_holds", 7),
        ("revoked-and-sent", "gate_holds", 1),
        ("forgotten-settlement", "counted_once", 6),
        ("one-line-day", "closed_days_stay", 1),
    ],
)
def test_a_planted_bug_at_the_gates_is_found_within_twenty_seeds(bug: str, rule: str, first: int) -> None:
    *_, last = results(range(first, first + 20), _DAYS_OF_GATES, bug, jobs=1, shrinks=False)
    assert rule in {each for each, _ in last["violations"]}


@pytest.mark.nightly
def test_books_are_what_moved_however_it_is_told() -> None:
    worlds = list(results(_SEEDS_OF_MONEY, _DAYS_OF_MONEY, bug=None, jobs=2, world="money"))
    assert ([each["seed"] for each in worlds if each["violations"]], len(worlds)) == ([], len(_SEEDS_OF_MONEY))


@pytest.mark.nightly
@pytest.mark.parametrize("bug", MONEY_BUGS)
def test_a_planted_bug_of_movements_is_found_within_twelve_seeds(bug: str) -> None:
    *_, last = results(_SEEDS_OF_MONEY, _DAYS_OF_MONEY, bug, jobs=1, shrinks=False, world="money")
    assert last["violations"]


@pytest.mark.nightly
def test_each_row_of_a_payout_is_paid_once_however_it_is_retried_and_lost() -> None:
    worlds = list(results(range(1, 12), _DAYS_OF_PAYOUTS, bug=None, jobs=2, world="payouts"))
    assert ([each["seed"] for each in worlds if each["violations"]], len(worlds)) == ([], 11)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        ("retried-in-doubt", "paid_once"),
        ("name-used-up", "paid_once"),
        ("late-and-counted", "rows_are_charged_once"),
        ("forgotten-attempts", "program_agrees"),
    ],
)
def test_a_planted_bug_of_payouts_is_found_within_ten_seeds(bug: str, rule: str) -> None:
    *_, last = results(range(1, 11), _DAYS_OF_PAYOUTS, bug, jobs=1, shrinks=False, world="payouts")
    assert rule in {each for each, _ in last["violations"]}


@pytest.mark.nightly
def test_a_planted_bug_is_found_and_shown_in_words() -> None:
    *_, last = results(range(1, 201), _DAYS, "silence-is-failure", jobs=1)
    assert "failure_is_true" in {rule for rule, _ in last["violations"]}
    assert any("asks for the" in sentence for sentence in last["words"])
