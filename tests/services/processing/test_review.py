"""Review: two people settle, once and with its money, what no provider confirmed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.support.money import a_client, balances, deposit, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import AuditEvent
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.services.operations.book_check.check import check_ranges
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.outcomes import REVIEW_SILENT, close_review, open_review
from ussd_server.status import Code, CursorError, ServiceError
from ussd_server.wire import ListPage

SILENT, FAILS_THEN_SUCCEEDS = "+256770000007", "+256770000009"


@pytest.fixture
def call(services: Services) -> RequestContext:
    call = a_client()
    deposit(services, call, 5000)
    return call


def silent_disbursement(services: Services, call: RequestContext, clock: MovableClock) -> str:
    """A disbursement that the provider never answered for, until it went to review."""
    made = services.transactions.create(request("disbursement", SILENT), call).transaction.transaction_id
    work(services, clock, 45, step=5)
    return made


def ended(transaction_id: str, has_succeeded: bool | None = None) -> EndReview:
    return EndReview(transaction_id, "Confirmed on the provider's statement", "Jane Doe", "Mary Roe", has_succeeded)


def refusal(services: Services, request: EndReview, call: RequestContext | None = None) -> Code:
    with pytest.raises(ServiceError) as refused:
        services.reviews.end(request, call or operator())
    return refused.value.code


@pytest.mark.parametrize(("has_succeeded", "status", "main"), [(True, "succeeded", 0), (False, "failed", 500_000)])
def test_two_people_settle_what_no_provider_confirmed(
    services: Services, call: RequestContext, clock: MovableClock, has_succeeded: bool, status: str, main: int
) -> None:
    transaction_id = silent_disbursement(services, call, clock)
    assert [item.transaction.transaction_id for item in services.reviews.list(operator())] == [transaction_id]
    item = services.reviews.end(ended(transaction_id, has_succeeded), operator())
    assert services.reviews.list(operator()) == ()
    assert (item.transaction.status, item.transaction.late) == (status, False)
    last = item.transaction.events[-1]
    assert (last.status, last.source, last.detail.note) == (status, "operator", "Confirmed on the provider's statement")
    assert item.note == "Confirmed on the provider's statement (Jane Doe, Mary Roe)"
    assert balances(call.client_id)["main"] == (main, 0)
    assert Event.select().where(Event.object_id == transaction_id, Event.type == f"transaction.{status}").count() == 1
    audit = AuditEvent.get(AuditEvent.action == "transaction.settled")
    assert (audit.object_id, audit.actor, audit.client_id) == (transaction_id, "operator", call.client_id)
    assert refusal(services, ended(transaction_id, has_succeeded)) is Code.INVALID_REQUEST
    work(services, clock, 10)
    assert Transaction.get_by_id(transaction_id).status == status
    assert not [violation for checked in check_ranges() for violation in checked.violations]


def test_one_person_or_no_reason_settles_nothing(services: Services, call: RequestContext, clock: MovableClock) -> None:
    transaction_id = silent_disbursement(services, call, clock)
    for changes in (
        {"second": "jane  doe "},
        {"second": ""},
        {"by": " "},
        {"by": "x" * 101},
        {"reason": " "},
        {"reason": "x" * 201},
    ):
        assert refusal(services, replace(ended(transaction_id, True), **changes)) is Code.INVALID_REQUEST
    assert Transaction.get_by_id(transaction_id).status == "ambiguous"


def test_an_unknown_outcome_cannot_be_closed_with_a_note(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    transaction_id = silent_disbursement(services, call, clock)
    assert refusal(services, ended(transaction_id)) is Code.INVALID_REQUEST
    assert len(services.reviews.list(operator())) == 1


def test_a_failure_that_two_people_settle_as_succeeded_needs_no_further_look(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    transaction_id = silent_disbursement(services, call, clock)
    services.reviews.end(ended(transaction_id, False), operator())
    now = clock.now()
    with unit_of_work():
        row = lock_row(Transaction, transaction_id)
        open_review(row, "a statement", now)
        row.save()
    item = services.reviews.end(ended(transaction_id, True), operator())
    assert (item.transaction.status, item.transaction.late, item.reason) == ("succeeded", True, "a statement")
    announced = Event.select().where(Event.object_id == transaction_id, Event.type == "transaction.needs_review")
    assert announced.count() == 2
    assert services.reviews.list(operator()) == ()


def test_a_review_that_was_closed_is_opened_again_for_the_same_reason_and_an_open_one_is_not(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    transaction_id = silent_disbursement(services, call, clock)
    with unit_of_work():
        row = lock_row(Transaction, transaction_id)
        open_review(row, REVIEW_SILENT, clock.now())
        close_review(row, REVIEW_SILENT, clock.now())
        open_review(row, REVIEW_SILENT, clock.now())
        row.save()
    announced = Event.select().where(Event.object_id == transaction_id, Event.type == "transaction.needs_review")
    assert (len(services.reviews.list(operator())), announced.count()) == (1, 2)


def test_a_late_success_is_on_the_list_and_is_closed_with_a_note(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    services.transactions.create(request("disbursement", FAILS_THEN_SUCCEEDS), call)
    work(services, clock, 15)
    (item,) = services.reviews.list(operator())
    assert (item.transaction.status, item.transaction.late) == ("succeeded", True)
    for outcome in (True, False):
        assert refusal(services, ended(item.transaction.transaction_id, outcome)) is Code.INVALID_REQUEST
    closed = services.reviews.end(ended(item.transaction.transaction_id), operator())
    assert closed.transaction.status == "succeeded"
    assert services.reviews.list(operator()) == ()
    assert refusal(services, ended(item.transaction.transaction_id)) is Code.INVALID_REQUEST


def test_what_is_not_on_the_list_stays_as_it_is(services: Services, call: RequestContext, clock: MovableClock) -> None:
    transaction_id = services.transactions.create(request(), call).transaction.transaction_id
    assert refusal(services, ended(transaction_id, True)) is Code.INVALID_REQUEST
    assert refusal(services, ended("x", True)) is Code.TRANSACTION_NOT_FOUND
    assert refusal(services, ended("00000000-0000-7000-8000-000000000000", True)) is Code.TRANSACTION_NOT_FOUND
    assert services.reviews.show(transaction_id, operator()).client_id == call.client_id


def test_a_page_of_reviews_goes_on_behind_the_last_one_though_several_were_opened_at_once(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    create, review = services.transactions.create, services.reviews
    ids = [create(request(reference=f"review-{place}"), call).transaction.transaction_id for place in range(5)]
    now = clock.now()
    for place, transaction_id in enumerate(ids):
        opened_at = now - timedelta(hours=place // 2)
        Transaction.update(review_opened_at=opened_at).where(Transaction.id == transaction_id).execute()
    seen, cursor = [], None
    while True:
        page = review.page(ListPage(cursor=cursor, limit=2), operator())
        seen += [item.transaction.transaction_id for item in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [item.transaction.transaction_id for item in review.list(operator())]
    assert sorted(seen) == sorted(ids)
    assert review.count(operator()) == 5
    with pytest.raises(CursorError):
        review.page(ListPage(cursor="forged"), operator())
