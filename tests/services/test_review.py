"""Review: what nobody could confirm is settled by two people, once, with its money."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.services.money import a_client, balances, deposit, operator, wish, work
from ussd_server.house import Services
from ussd_server.messages.review import EndReview
from ussd_server.models.base import unit_of_work
from ussd_server.models.clients import AuditEvent
from ussd_server.models.events import Event
from ussd_server.models.prepared import lock_row
from ussd_server.models.transactions import Transaction
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.services.check import check_ranges
from ussd_server.services.outcomes import open_review

SILENT, FAILS_THEN_SUCCEEDS = "+256770000007", "+256770000009"


@pytest.fixture
def call(house: Services) -> CallContext:
    call = a_client()
    deposit(house, call, 5000)
    return call


def silent_disbursement(house: Services, call: CallContext, clock: MovableClock) -> str:
    """A disbursement that the company never answered for, until it went to review."""
    made = house.transactions.create(wish("disbursement", SILENT), call).transaction.transaction_id
    work(house, clock, 45, step=5)
    return made


def ended(transaction_id: str, has_succeeded: bool | None = None) -> EndReview:
    return EndReview(transaction_id, "Confirmed on the company's statement", "Jane Doe", "Mary Roe", has_succeeded)


def refusal(house: Services, wish: EndReview, call: CallContext | None = None) -> Code:
    with pytest.raises(ServiceError) as refused:
        house.review.end(wish, call or operator())
    return refused.value.code


@pytest.mark.parametrize(("has_succeeded", "status", "main"), [(True, "succeeded", 0), (False, "failed", 500_000)])
def test_two_people_settle_what_nobody_could_confirm(
    house: Services, call: CallContext, clock: MovableClock, has_succeeded: bool, status: str, main: int
) -> None:
    transaction_id = silent_disbursement(house, call, clock)
    assert [item.transaction.transaction_id for item in house.review.list(operator())] == [transaction_id]
    item = house.review.end(ended(transaction_id, has_succeeded), operator())
    assert house.review.list(operator()) == ()
    assert (item.transaction.status, item.transaction.late) == (status, False)
    last = item.transaction.events[-1]
    assert (last.status, last.source, last.detail) == (status, "operator", "Confirmed on the company's statement")
    assert item.note == "Confirmed on the company's statement (Jane Doe, Mary Roe)"
    assert balances(call.client_id)["main"] == (main, 0)
    assert Event.select().where(Event.object_id == transaction_id, Event.type == f"transaction.{status}").count() == 1
    audit = AuditEvent.get(AuditEvent.action == "transaction.settled")
    assert (audit.object_id, audit.actor, audit.client_id) == (transaction_id, "operator", call.client_id)
    assert refusal(house, ended(transaction_id, has_succeeded)) is Code.INVALID_REQUEST
    work(house, clock, 10)
    assert Transaction.get_by_id(transaction_id).status == status
    assert not [violation for checked in check_ranges() for violation in checked.violations]


@pytest.mark.parametrize(
    "changes",
    [{"second": "jane  doe "}, {"second": ""}, {"by": " "}, {"by": "x" * 101}, {"reason": " "}, {"reason": "x" * 201}],
)
def test_one_person_or_no_reason_settles_nothing(
    house: Services, call: CallContext, clock: MovableClock, changes: dict[str, str]
) -> None:
    transaction_id = silent_disbursement(house, call, clock)
    assert refusal(house, replace(ended(transaction_id, True), **changes)) is Code.INVALID_REQUEST
    assert Transaction.get_by_id(transaction_id).status == "ambiguous"


def test_an_unknown_outcome_cannot_be_closed_with_a_note(
    house: Services, call: CallContext, clock: MovableClock
) -> None:
    transaction_id = silent_disbursement(house, call, clock)
    assert refusal(house, ended(transaction_id)) is Code.INVALID_REQUEST
    assert len(house.review.list(operator())) == 1


def test_a_failure_that_two_people_settle_as_succeeded_needs_no_further_look(
    house: Services, call: CallContext, clock: MovableClock
) -> None:
    transaction_id = silent_disbursement(house, call, clock)
    house.review.end(ended(transaction_id, False), operator())
    now = clock.now()
    with unit_of_work():
        row = lock_row(Transaction, transaction_id)
        open_review(row, "a statement", now)
        row.save()
    item = house.review.end(ended(transaction_id, True), operator())
    assert (item.transaction.status, item.transaction.late, item.reason) == ("succeeded", True, "a statement")
    announced = Event.select().where(Event.object_id == transaction_id, Event.type == "transaction.needs_review")
    assert announced.count() == 2
    assert house.review.list(operator()) == ()


def test_a_late_success_is_on_the_list_and_is_closed_with_a_note(
    house: Services, call: CallContext, clock: MovableClock
) -> None:
    house.transactions.create(wish("disbursement", FAILS_THEN_SUCCEEDS), call)
    work(house, clock, 15)
    (item,) = house.review.list(operator())
    assert (item.transaction.status, item.transaction.late) == ("succeeded", True)
    for outcome in (True, False):
        assert refusal(house, ended(item.transaction.transaction_id, outcome)) is Code.INVALID_REQUEST
    closed = house.review.end(ended(item.transaction.transaction_id), operator())
    assert closed.transaction.status == "succeeded"
    assert house.review.list(operator()) == ()


def test_only_operators_review_and_what_is_not_on_the_list_stays_as_it_is(
    house: Services, call: CallContext, clock: MovableClock
) -> None:
    transaction_id = house.transactions.create(wish(), call).transaction.transaction_id
    assert refusal(house, ended(transaction_id, True)) is Code.INVALID_REQUEST
    assert refusal(house, ended("x", True)) is Code.TRANSACTION_NOT_FOUND
    assert refusal(house, ended("00000000-0000-7000-8000-000000000000", True)) is Code.TRANSACTION_NOT_FOUND
    assert refusal(house, ended(transaction_id, True), call) is Code.INSUFFICIENT_SCOPE
    for look in (lambda: house.review.list(call), lambda: house.review.show(transaction_id, call)):
        with pytest.raises(ServiceError):
            look()
    assert house.review.show(transaction_id, operator()).client_id == call.client_id
