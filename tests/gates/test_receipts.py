"""A receipt moves one balance once, whichever of our ways learns of it first, second or at the same moment (P28)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.gates.registrations import calls_of, names_used_of
from tests.gates.ways_in import CENTS, WAYS, WRITTEN, Way, World
from tests.support.books import check_everything
from tests.support.crowd import at_once
from tests.support.money import balances
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.messages import WayIn
from ussd_server.values import canonical_receipt

PAYERS = ("+256772123456", "+256772000001")


def test_every_way_in_stands_in_the_matrix_and_is_used() -> None:
    assert set(WAYS) == set(WayIn)
    assert names_used_of(WayIn) == set(WayIn.__members__)


def test_nothing_is_booked_beside_the_gate() -> None:
    moving = {path.name for path, call in calls_of("Plan") if any(each.arg == "moves" for each in call.keywords)}
    # Deposits and transfers have no receipt; that of a returned settlement is of the settlement, which is locked.
    assert moving == {
        "booking.py", "recovery.py", "bookings.py", "settlements.py", "transactions.py", "corrections.py",
    }  # fmt: skip
    assert {path.name for path, _ in calls_of("succeed")} == {"provider_answers.py", "review.py", "settlements.py"}
    assert {path.name for path, _ in calls_of("use_for")} == {"outcomes.py"}
    assert {path.name for path, _ in calls_of("booking")} == {"booking.py", "corrections.py"}
    assert {path.name for path, _ in calls_of("recovering")} == {"recovery.py", "settlements.py"}
    assert {path.name for path, _ in calls_of("find_or_make")} == {
        "line_movements.py", "notices.py", "outcomes.py", "trial.py",
    }  # fmt: skip


def reporters(world: World, first: WayIn, second: WayIn, numbers: tuple[str, str]) -> list[Way]:
    each = zip((first, second), ("way-1", "way-2"), numbers, WRITTEN, strict=True)
    pair = [WAYS[way](world, name, number, receipt) for way, name, number, receipt in each]
    for each in pair:
        each.prepare()
    return pair


def require_counted_once(world: World) -> int:
    """The balance is what is credited, one credited payment has the receipt, and `check` agrees or names both.

    Returns how many payments moved money.
    """
    rows = list(Transaction.select().where(Transaction.client_id == world.client.id).order_by(Transaction.id))
    credited = [row for row in rows if row.type == "collection" and row.status == "succeeded"]
    deposited = [row for row in rows if row.type == "deposit"]
    settled = [row for row in rows if row.type == "settlement" and row.status == "succeeded"]
    reserved = [row for row in rows if row.type == "settlement" and row.status == "created"]
    balance = len(deposited) + len(credited) - len(settled)
    assert balances(world.client.id)["main"] == (balance * CENTS, len(reserved) * CENTS)
    assert len(settled) <= 1
    reported = canonical_receipt(WRITTEN[0])
    counted = [row for row in credited if canonical_receipt(row.provider_transaction_id or "") == reported]
    assert len(counted) <= 1, [row.id for row in counted]
    without = [row for row in credited if row.provider_transaction_id is None]
    assert {row.id for row in credited} == {row.id for row in counted + without}
    contested = [row for row in rows if row.contested_id and row.review_opened_at and not row.review_closed_at]
    named = {violation.id for violation in check_everything()}
    assert named == {name for row in contested for name in (row.id, row.contested_id)}
    for row in rows:
        if row.same_money_as is not None:
            assert Transaction.get_by_id(row.same_money_as).same_money_as == row.id
    return len(credited) + len(settled)


def orders_of_two() -> list[Any]:
    """Each order of two ways with one payer and with two numbers; by day its reverse has the other one."""
    cases = []
    for first, second in product(WayIn, WayIn):
        of_one_payer = [] if first <= second else [pytest.mark.nightly]
        of_two_numbers = [] if first >= second else [pytest.mark.nightly]
        cases += [
            pytest.param(first, second, PAYERS[:1] * 2, marks=of_one_payer, id=f"{first}-{second}-one payer"),
            pytest.param(first, second, PAYERS, marks=of_two_numbers, id=f"{first}-{second}-two numbers"),
        ]
    return cases


@pytest.mark.parametrize(("first", "second", "numbers"), orders_of_two())
def test_a_receipt_that_two_ways_report_counts_once(
    world: World, first: WayIn, second: WayIn, numbers: tuple[str, str]
) -> None:
    pair = reporters(world, first, second, numbers)
    for each in pair:
        each.report()
        world.work()
        counted = require_counted_once(world)
    assert counted > 0


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize(("first", "second"), [pair for pair in product(WayIn, WayIn) if pair[0] <= pair[1]])
def test_a_receipt_that_two_ways_report_at_the_same_moment_counts_once(
    world: World, first: WayIn, second: WayIn
) -> None:
    pair = reporters(world, first, second, PAYERS)
    answers = at_once([each.report for each in pair])
    assert answers == [None, None]
    world.work()
    assert require_counted_once(world) > 0
