"""A day that was closed stays proven when our collection is credited later instead of a payer's payment of that day."""

from __future__ import annotations

from datetime import date, timedelta
from functools import partial

import pytest

from tests.conftest import MovableClock
from tests.gates.test_same_money import HASHED, PAYER, RECEIPT, seen, settle
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World
from tests.services.reconciliation.days.closing import at_hour, close, end_reviews, store
from tests.services.reconciliation.statement_files import kampala, with_balances
from tests.support.books import check_everything
from tests.support.competitors import competing
from tests.support.money import operator
from tests.support.unguarded import without_triggers
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.movements.messages import AssignMovement, EndMovement
from ussd_server.services.operations.book_check.check import Violation
from ussd_server.services.reconciliation.days import bridge
from ussd_server.values import KAMPALA, bounds_of_day


@pytest.fixture
def day(clock: MovableClock) -> date:
    at_hour(clock, 12)
    return clock.now().astimezone(KAMPALA).date() + timedelta(days=1)


@pytest.fixture
def ours(world: World, clock: MovableClock, day: date) -> Enquired:
    """A collection of the day, whose money a payer's payment has on a statement that covers the day."""
    lines = [_other_line(world, "before")]
    at_hour(clock, 9)
    made = Enquired(world, "public", PAYER, RECEIPT)
    made.prepare()
    at_hour(clock, 11)
    world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED, at=clock.now())
    lines.append(made.line(RECEIPT, ""))
    at_hour(clock, 10)
    lines.append(_other_line(world, "after"))
    clock.advance(86_400)
    store(world.services, with_balances(lines))
    end_reviews(world.services)
    return made


def _other_line(world: World, receipt: str) -> list[str]:
    values = [receipt, "", kampala(world.clock.now()), "Successful", "Payment"]
    return [*values, "FRI:256770000009/MSISDN", "FRI:41000001/MM", "1,000.00", "UGX", "0", ""]


def _violations(world: World) -> list[Violation]:
    return list(check_everything(vault=world.services.runtime.vault))


def test_a_closed_day_stays_proven_and_the_later_day_counts_the_money_once(
    world: World, clock: MovableClock, day: date, ours: Enquired
) -> None:
    assert close(world.services, day, SECOND).ours_cents == CENTS
    at_hour(clock, 9)
    opening = _other_line(world, "earlier")
    at_hour(clock, 9)
    ours.report()
    given_back_on = clock.now().astimezone(KAMPALA).date()
    assert seen(world, ours.row.same_money_as).status == "reversed"
    assert _violations(world) == []
    at_hour(clock, 8)
    store(world.services, with_balances([opening, _other_line(world, "later")]))
    end_reviews(world.services)
    later = close(world.services, given_back_on, SECOND)
    assert (later.ours_cents, later.theirs_cents) == (0, 0)
    assert [(step.verdict, step.count, step.amount_cents, step.late_for) for step in later.bridge] == [
        ("late_change", 2, 0, day.isoformat())
    ]
    places = (("sandbox", given_back_on), ("mtn", given_back_on), ("sandbox", given_back_on + timedelta(days=1)))
    assert [len(bridge._given_back(name, *bounds_of_day(each))) for name, each in places] == [1, 0, 0]
    assert _violations(world) == []


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_money_that_is_given_back_while_its_day_is_closed_still_counts_on_that_day(
    world: World, day: date, ours: Enquired
) -> None:
    with competing() as compete:
        with unit_of_work():
            ours.report()
            assert seen(world, ours.row.same_money_as).status == "reversed"
            closing = compete(partial(close, world.services, day, SECOND))
            assert closing.done(), "payments do not wait for a day that is closed"
        assert closing.result().ours_cents == CENTS
    assert _violations(world) == []


def test_a_day_that_was_open_when_the_money_changed_counts_its_line_on_the_day_of_the_collection(
    world: World, clock: MovableClock, day: date, ours: Enquired
) -> None:
    at_hour(clock, 9)
    ours.report()
    given_back_on = clock.now().astimezone(KAMPALA).date()
    at_hour(clock, 8)
    # Its balance goes on from the other file's, so both cover the day on which the collection succeeded.
    store(world.services, with_balances([_other_line(world, "later")], opening=1_007_000))
    end_reviews(world.services)
    for each, ours_cents, theirs_cents in ((given_back_on, CENTS, 0), (day, 0, CENTS)):
        closed = close(world.services, each, SECOND)
        assert (closed.ours_cents, closed.theirs_cents) == (ours_cents, theirs_cents)
        assert [(step.verdict, step.amount_cents) for step in closed.bridge] == [
            ("other_day", ours_cents - theirs_cents)
        ]
    assert _violations(world) == []


def test_a_payers_payment_that_is_refunded_after_our_collection_failed_as_the_same_money_stays_on_its_day(
    world: World, day: date, ours: Enquired
) -> None:
    close(world.services, day, SECOND)
    paid = Movement.get(Movement.receipt == RECEIPT)
    # The till's notice had no number.
    with without_triggers():
        Movement.update(phone_number=PAYER).execute()
        Transaction.update(phone_number=PAYER).where(Transaction.id == paid.transaction_id).execute()
    ours.succeeds()
    ours.ask_now()
    settle(world, ours.transaction_id, has_succeeded=False)
    assert seen(world, paid.transaction_id).same_money_as == ours.transaction_id
    world.refund(paid.transaction_id)
    assert seen(world, paid.transaction_id).status == "reversed"
    assert [each for each in _violations(world) if each.part == "closed_days"] == []


def test_a_day_stays_proven_when_what_was_booked_for_an_earlier_one_is_released(
    world: World, clock: MovableClock, day: date
) -> None:
    lines = [_other_line(world, "before")]
    at_hour(clock, 11)
    lines.append(_other_line(world, "paid"))
    at_hour(clock, 11)
    lines.append(_other_line(world, "after"))
    clock.advance(3600)
    store(world.services, with_balances(lines))
    close(world.services, day, SECOND)
    paid = Movement.get(Movement.receipt == "paid")
    assign = AssignMovement(paid.id, "SCH1042", BY, SECOND)
    world.services.movement_uses.assign(assign, operator())
    booked_on = clock.now().astimezone(KAMPALA).date()
    at_hour(clock, 11)
    store(world.services, with_balances([_other_line(world, "last")], opening=1_003_000))
    steps = close(world.services, booked_on, SECOND).bridge
    assert ("late_change", 1000_00, day.isoformat()) in [
        (step.verdict, step.amount_cents, step.late_for) for step in steps
    ]
    clock.advance(3600)
    world.services.releases.release(EndMovement(paid.id, "Another code", BY, SECOND), operator())
    assert _violations(world) == []
