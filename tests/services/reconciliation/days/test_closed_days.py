"""Closing a day: both sums, the steps between them, and what comes later on the day on which it comes."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.incoming.till import Till
from tests.services.reconciliation.days.closing import BY, SECOND, close, cover, end_reviews
from tests.services.reconciliation.statement_files import kampala, mtn_row, open_reviews, reconcile
from tests.support.books import check_everything
from tests.support.money import a_client, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.clients import Client
from ussd_server.models.statements import ClosedDay
from ussd_server.models.transactions import Transaction
from ussd_server.services.audit.messages import ListOperatorActions
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.services.movements.messages import (
    AssignMovement,
    CorrectMovement,
    EndMovement,
    ListMovements,
    UndonePayment,
)
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.outcomes import open_review
from ussd_server.services.reconciliation.messages import ConcludeFromStatement, EndDifference, UndoImport
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA


def pay(
    services: Services, clock: MovableClock, reference: str, shillings: int = 5000, number: str = "+256770000000"
) -> Transaction:
    made = services.transactions.create(request(number=number, shillings=shillings, reference=reference), a_client())
    work(services, clock, 5)
    return Transaction.get_by_id(made.transaction.transaction_id)


def store(services: Services, *rows: list[str]) -> str:
    return reconcile(services, rows).statement.statement_id


@pytest.fixture
def day(clock: MovableClock) -> date:
    """Today, from nine in the morning in Kampala on."""
    now = clock.now().astimezone(KAMPALA)
    morning = now.replace(hour=9, minute=0) + timedelta(days=1)
    clock.advance((morning - now).total_seconds())
    return clock.now().astimezone(KAMPALA).date()


def test_a_day_that_agrees_is_closed_with_both_sums(services: Services, clock: MovableClock, day: date) -> None:
    statement_id = store(services, mtn_row(pay(services, clock, "1")), mtn_row(pay(services, clock, "2", 700)))
    with pytest.raises(ServiceError, match="The day is not over"):
        close(services, day)
    with pytest.raises(ServiceError, match="the last is over"):
        cover(services, statement_id, day)
    clock.advance(86_400)
    cover(services, statement_id, day)
    closed = close(services, day)
    assert (closed.ours_cents, closed.theirs_cents, closed.difference_cents) == (570_000, 570_000, 0)
    assert [(step.verdict, step.count, step.amount_cents) for step in closed.bridge] == [("matched", 2, 0)]
    assert (closed.date, closed.account, closed.closed_by) == (day.isoformat(), "sandbox", BY)
    with pytest.raises(ServiceError, match="closed already"):
        close(services, day)
    assert [each.date for each in services.days.list(operator()) if each.closed] == [day.isoformat()]


def test_the_steps_of_the_bridge_add_up_to_the_difference(services: Services, clock: MovableClock, day: date) -> None:
    good, other = pay(services, clock, "1"), pay(services, clock, "2", 700)
    pay(services, clock, "missing there", 900)
    statement_id = store(
        services,
        mtn_row(good),
        mtn_row(other, Amount="650.00"),
        mtn_row(good, Id="X-1", **{"External id": "unknown"}, Amount="300.00"),
        mtn_row(good, Date=f"{day} 23:59:00", Id="F", Type="Fee", Amount="10.00"),
    )
    clock.advance(86_400)
    cover(services, statement_id, day)
    with pytest.raises(ServiceError, match="2 of its differences are open"):
        close(services, day)
    end_reviews(services)
    say_what_moved(services, other)
    clock.advance(60)
    closed = close(services, day, SECOND)
    assert (closed.ours_cents, closed.theirs_cents) == (590_000, 595_000)
    steps = {step.verdict: (step.count, step.amount_cents) for step in closed.bridge}
    assert steps == {
        "matched": (1, 0),
        "not_theirs": (1, 90_000),
        "held": (1, -30_000),
        "other_day": (1, -65_000),
        "fee": (1, 0),
    }
    assert sum(step.amount_cents for step in closed.bridge) == closed.difference_cents


def say_what_moved(services: Services, payment: Transaction) -> None:
    """Two operators say that a success did not move as we booked it, and book what its line moved."""
    (held,) = [each for each in services.movements.list(ListMovements(is_held=True), operator()).items if each.beside]
    correction = CorrectMovement(held.movement_id, payment.client_id, "Case 17", BY, SECOND, payment=payment.id)
    with pytest.raises(ServiceError, match="counts, with another amount; say first that it never moved"):
        services.corrections.correct(correction, operator())
    services.releases.end_unmoved(UndonePayment(payment.id, "Case 17", BY, SECOND), operator())
    services.corrections.correct(correction, operator())


def test_a_success_that_only_the_statement_has_keeps_its_day_open_until_it_is_concluded(
    services: Services, clock: MovableClock, day: date
) -> None:
    silent = pay(services, clock, "silent", number="+256770000007")
    statement_id = store(services, mtn_row(pay(services, clock, "1", 700)), mtn_row(silent, Id="S-1"))
    clock.advance(86_400)
    cover(services, statement_id, day)
    (alone,) = open_reviews(services)
    with pytest.raises(ServiceError, match=f"Its line moved money: conclude transaction {silent.id} by it"):
        services.differences.end(EndDifference(alone.difference_id, "explained", BY), operator())
    with pytest.raises(ServiceError, match="1 of its differences is open"):
        close(services, day, SECOND)
    conclude = ConcludeFromStatement(alone.difference_id, "the statement has it", BY, SECOND)
    services.differences.conclude(conclude, operator())
    second = store(services, mtn_row(pay(services, clock, "of the next day", 400)))
    clock.advance(86_400)
    cover(services, second, day + timedelta(days=1))
    days = [close(services, each, SECOND) for each in (day, day + timedelta(days=1))]
    assert [(step.verdict, step.count, step.amount_cents) for each in days for step in each.bridge] == [
        ("matched", 1, 0),
        ("status_differs", 1, -500_000),
        ("matched", 1, 0),
        ("late_change", 1, 500_000),
    ]
    assert check_everything(vault=services.runtime.vault) == []


def test_a_payment_that_came_late_on_its_own_day_is_no_late_change_of_that_day(
    services: Services, clock: MovableClock, day: date
) -> None:
    silent = pay(services, clock, "silent", number="+256770000007")
    clock.advance(6 * 3600)
    row = Transaction.get_by_id(silent.id)
    open_review(row, "nobody could confirm the outcome in time", clock.now())
    row.save()
    services.reviews.end(EndReview(silent.id, "the provider has it", BY, SECOND, True), operator())
    paid = Transaction.get_by_id(silent.id)
    later = mtn_row(paid, Id="S-1", Date=kampala(paid.completed_at + timedelta(days=1)))
    statement_id = store(services, mtn_row(pay(services, clock, "1", 700)), later)
    clock.advance(86_400)
    end_reviews(services)
    cover(services, statement_id, day)
    closed = close(services, day, SECOND)
    assert ("other_day", 1) in [(step.verdict, step.count) for step in closed.bridge]
    assert check_everything(vault=services.runtime.vault) == []


def test_a_refund_that_moved_another_amount_does_not_keep_its_day_open(
    services: Services, clock: MovableClock, day: date
) -> None:
    sale = pay(services, clock, "sale")
    services.refunds.create(CreateRefund(sale.id, "back", 400_000), operator_context(sale.client_id))
    work(services, clock, 2)
    refund = Transaction.get(Transaction.refund_of == sale.id)
    statement_id = store(services, mtn_row(sale), mtn_row(refund, Amount="3,000.00"))
    clock.advance(86_400)
    cover(services, statement_id, day)
    with pytest.raises(ServiceError, match="say first what a held movement"):
        close(services, day, SECOND)
    say_what_moved(services, refund)
    clock.advance(61)
    closed = close(services, day, SECOND)
    assert [(step.verdict, step.count, step.amount_cents) for step in closed.bridge] == [
        ("matched", 1, 0),
        ("other_day", 1, 300_000),
    ]


def test_a_day_is_closed_beside_a_wrong_older_file_with_which_another_day_was_closed(
    services: Services, clock: MovableClock, day: date
) -> None:
    first = pay(services, clock, "1")
    clock.advance(86_400)
    other = pay(services, clock, "2", 700)
    clock.advance(86_400)
    wrong = store(services, mtn_row(first), mtn_row(other, Amount="650.00"))
    cover(services, wrong, day)
    close(services, day)
    with pytest.raises(ServiceError, match="was closed with it"):
        services.provider_statements.undo(UndoImport(wrong, BY, SECOND), operator())
    cover(services, wrong, day + timedelta(days=1))
    right = store(services, mtn_row(first), mtn_row(other))
    cover(services, right, day + timedelta(days=1))
    closed = close(services, day + timedelta(days=1))
    assert [(step.verdict, step.count, step.amount_cents) for step in closed.bridge] == [("matched", 1, 0)]
    (moved,) = services.movements.list(ListMovements(is_held=True), operator()).items
    never = EndMovement(moved.movement_id, "The newer file has 700", BY, SECOND)
    services.movement_uses.take_as_own(never, operator())
    assert check_everything(vault=services.runtime.vault) == []


def test_a_day_needs_a_statement_of_its_own_and_keeps_it(services: Services, clock: MovableClock, day: date) -> None:
    first = mtn_row(pay(services, clock, "1"))
    clock.advance(86_400)
    store(services, first, mtn_row(pay(services, clock, "2")))
    clock.advance(86_400)
    with pytest.raises(ServiceError, match="No statement covers this day"):
        close(services, day)
    statement_id = store(services, first)
    cover(services, statement_id, day)
    close(services, day)
    with pytest.raises(ServiceError, match="was closed with it"):
        services.provider_statements.undo(UndoImport(statement_id, BY, "John Okot"), operator())


def test_a_payers_payment_that_is_assigned_later_is_a_late_change_of_the_day_on_which_it_was_paid(
    services: Services, clock: MovableClock, day: date
) -> None:
    client = a_client()
    services.payment_codes.set_prefix(SetPrefix(client.client_id, "SCH"), operator())
    services.payment_codes.put(PutPaymentCode("SCH1", "Fees"), client)
    line = mtn_row(pay(services, clock, "1"), **{"External id": ""})
    reported, found = ([f"T{number}", *line[1:]] for number in (1, 2))
    Till(services).pay("SCHI", 5000, "T1", at=clock.now())
    first = store(services, line, reported, found)
    clock.advance(86_400)
    cover(services, first, day)
    closed = close(services, day, SECOND)
    assert ("held", 2, -1_000_000) in [(step.verdict, step.count, step.amount_cents) for step in closed.bridge]
    for held in services.movements.list(ListMovements(is_held=True), operator()).items:
        services.movement_uses.assign(AssignMovement(held.movement_id, "SCH1", BY, "John Okot"), operator())
    second = store(services, mtn_row(pay(services, clock, "2")))
    clock.advance(86_400)
    cover(services, second, day + timedelta(days=1))
    with pytest.raises(ServiceError, match="takes two operators: late_change UGX 10,000"):
        close(services, day + timedelta(days=1))
    next_day = close(services, day + timedelta(days=1), SECOND)
    assert (next_day.closed_by, next_day.confirmed_by) == (BY, SECOND)
    steps = {step.verdict: (step.count, step.amount_cents, step.late_for) for step in next_day.bridge}
    assert steps == {"matched": (1, 0, None), "late_change": (2, 1_000_000, day.isoformat())}
    assert ClosedDay.get(ClosedDay.day == day.isoformat()).ours_cents == closed.ours_cents


def test_a_day_without_payments_is_closed_with_an_empty_statement_and_the_past_31_days_are_listed(
    services: Services, clock: MovableClock, day: date
) -> None:
    pay(services, clock, "1")
    clock.advance(2 * 86_400)
    quiet = day + timedelta(days=1)
    listed = [f"{quiet - timedelta(days=back)}" for back in range(31)]
    assert [each.date for each in services.days.list(operator()) if each.account == "sandbox"] == listed[:3]
    Client.update(created_at=clock.now() - timedelta(days=90)).execute()
    assert [each.date for each in services.days.list(operator()) if each.account == "sandbox"] == listed
    with pytest.raises(ServiceError, match="No statement covers this day"):
        close(services, quiet)
    with pytest.raises(ServiceError, match="its statement cannot be empty"):
        close(services, day, is_empty=True)
    closed = close(services, quiet, is_empty=True)
    assert (closed.ours_cents, closed.theirs_cents, closed.bridge) == (0, 0, ())
    trail = services.audit.list_of_operators(ListOperatorActions(action="day.closed"), operator()).items
    assert [event.reason for event in trail] == ["Its statement was empty"]
    Till(services).pay("", 5000, "T1", at=clock.now())
    clock.advance(86_400)
    with pytest.raises(ServiceError, match="its statement cannot be empty"):
        close(services, day + timedelta(days=2), is_empty=True)
