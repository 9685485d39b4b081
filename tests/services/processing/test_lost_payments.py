"""Payments that were lost, could not leave or cannot be confirmed: asked again, failed, or reviewed by people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.books import check_everything
from tests.support.desk import (
    FAILURE,
    NOT_FOUND,
    NOT_SENT,
    PENDING,
    SUCCESS,
    UNKNOWN,
    Desk,
    FakeProvider,
)
from tests.support.money import balances, operator
from ussd_server.models.transactions import Transaction
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.outcomes import REVIEW_AMOUNT, REVIEW_ELSEWHERE, REVIEW_SILENT
from ussd_server.services.providers.providers import Providers
from ussd_server.services.transactions.messages import CreateRefund


def test_a_request_that_could_not_leave_is_tried_again_and_then_called_off(desk: Desk, provider: FakeProvider) -> None:
    provider.asked = [NOT_SENT]
    desk.order("disbursement")
    desk.work(50)
    assert desk.row.status == "submitted"
    assert len(provider.asks) > 5
    desk.work(20)
    assert (desk.row.status, desk.row.failure_code) == ("failed", "PROVIDER_UNAVAILABLE")
    assert desk.row.ask_attempts == 0


def test_a_lost_payment_that_cannot_be_sent_again_is_asked_in_its_pace_and_reaches_review(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.asked, provider.enquired = [UNKNOWN, NOT_SENT], [NOT_FOUND]
    desk.order("disbursement")
    desk.work(1100)
    row = desk.row
    assert (row.status, row.review_reason) == ("ambiguous", REVIEW_SILENT)
    assert row.ask_attempts == 1, "what did not leave is not counted"
    assert len(provider.asks) + provider.enquiries < 150
    before = len(provider.asks)
    desk.work(3 * 3600)
    assert len(provider.asks) == before, "nothing is sent while a person looks at it"
    provider.enquired = [SUCCESS]
    assert desk.processing.bring_forward(desk.row.provider_reference), "a callback still hurries the next enquiry"
    desk.work()
    assert desk.row.status == "succeeded"


def test_a_lost_payment_that_could_not_be_sent_again_at_first_is_sent_later(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [UNKNOWN, NOT_SENT, NOT_SENT, SUCCESS], [NOT_FOUND]
    desk.order()
    desk.work(500)
    assert (desk.row.status, len(provider.asks), desk.row.ask_attempts) == ("succeeded", 4, 2)


def test_a_payment_that_is_about_to_be_sent_again_is_no_violation(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [NOT_FOUND]
    desk.order()
    desk.work(70)
    Transaction.update(asked_at=None, status="ambiguous").where(Transaction.id == desk.id).execute()
    assert desk.row.ask_attempts > 0
    rules = {violation.rule for violation in check_everything()}
    assert "was answered by its provider and never sent" not in rules


def test_an_adapter_that_raises_exceptions_sends_a_payment_to_review(desk: Desk, provider: FakeProvider) -> None:
    provider.while_asked = provider.while_enquired = lambda: 1 / 0
    desk.order()
    desk.work(1100)
    assert (desk.row.status, desk.row.review_reason) == ("ambiguous", REVIEW_SILENT)
    assert {type(mistake) for mistake in provider.mistakes} == {ZeroDivisionError}
    provider.mistakes.clear()


def test_a_provider_that_did_not_know_a_payment_yet_does_not_make_it_lost_by_answering_late(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [NOT_FOUND]
    desk.order()
    (claimed,) = desk.processing.claim(1)
    desk.processing.advance(claimed)
    slow = desk.another_worker(at_kill_point=lambda point: point == "query.answered" and desk.clock.advance(120))
    desk.clock.advance(6)
    (claimed,) = slow.claim(1)
    slow.advance(claimed)
    assert desk.row.asked_at is not None
    assert (desk.row.status, len(provider.asks)) == ("ambiguous", 1)
    desk.work(15)
    assert len(provider.asks) == 2, "what it does not know now it never got"


def test_an_overtaken_answer_does_not_make_a_payment_lost_that_was_sent_again(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [NOT_FOUND]
    desk.order()
    desk.work(40)
    sleeper = desk.another_worker(at_kill_point=lambda point: point == "query.answered" and overtake())

    def overtake() -> None:
        desk.clock.advance(61)
        other = desk.another_worker()
        for _ in range(2):
            (claimed,) = other.claim(1)
            other.advance(claimed)
        assert len(provider.asks) == 2
        desk.clock.advance(61)

    desk.clock.advance(70)
    (claimed,) = sleeper.claim(1)
    sleeper.advance(claimed)
    assert desk.row.asked_at is not None
    provider.enquired = [PENDING]
    desk.work(120)
    assert (len(provider.asks), desk.row.status) == (2, "pending")


def test_an_enquiry_that_could_not_leave_proves_nothing(desk: Desk, provider: FakeProvider) -> None:
    desk.order("disbursement")
    crashed = desk.another_worker(at_kill_point=lambda point: 1 / 0 if point == "send.recorded" else None)
    (claimed,) = crashed.claim(1)
    with pytest.raises(ZeroDivisionError):
        crashed.advance(claimed)
    provider.enquired = [NOT_SENT]
    desk.clock.advance(61)
    desk.work(300)
    assert desk.row.status == "ambiguous"
    assert provider.asks == []


def test_a_payment_that_the_provider_does_not_know_is_sent_again_under_the_same_reference(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [NOT_FOUND]
    desk.order()
    desk.work(50)
    assert len(provider.asks) == 1
    desk.work(200)
    assert len(provider.asks) == 3, "asked again, and no more than twice again"
    assert len({payment.provider_reference for payment in provider.asks}) == 1
    desk.work(600)
    assert (len(provider.asks), desk.row.status) == (3, "ambiguous")


def test_an_accepted_payment_that_is_not_found_yet_stays_pending(desk: Desk, provider: FakeProvider) -> None:
    provider.enquired = [NOT_FOUND, NOT_FOUND, SUCCESS]
    desk.order()
    desk.work(60)
    assert desk.statuses == ["created", "submitted", "pending", "succeeded"]


def test_a_payment_without_an_outcome_goes_to_review_and_is_still_enquired_about(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [UNKNOWN]
    desk.order("disbursement")
    desk.work(1100)
    row = desk.row
    assert (row.status, row.review_reason, row.review_closed_at) == ("ambiguous", REVIEW_SILENT, None)
    assert desk.events("transaction.needs_review") == 1
    before = provider.enquiries
    desk.work(3 * 3600)
    assert 2 <= provider.enquiries - before <= 4
    assert desk.events("transaction.needs_review") == 1
    provider.enquired = [SUCCESS]
    desk.work(4000)
    row = desk.row
    assert (row.status, row.late) == ("succeeded", False)
    assert row.review_closed_at is not None


def test_a_payment_leaves_the_review_list_when_its_provider_reports_failure(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [UNKNOWN]
    desk.order("disbursement")
    desk.clock.advance(1)
    desk.work(1100)
    provider.enquired = [FAILURE]
    desk.work(4000)
    row = desk.row
    assert (row.status, row.review_reason, row.review_closed_at is None) == ("failed", REVIEW_SILENT, False)


def test_a_review_is_announced_again_when_its_reason_changes(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [UNKNOWN]
    desk.order("disbursement")
    desk.work(1100)
    provider.enquired = [replace(SUCCESS, amount_cents=1)]
    desk.work(4000)
    assert desk.row.review_reason == REVIEW_AMOUNT.format("UGX 0.01")
    assert desk.events("transaction.needs_review") == 2


def test_another_amount_than_asked_moves_nothing_and_goes_to_review(desk: Desk, provider: FakeProvider) -> None:
    provider.enquired = [replace(SUCCESS, amount_cents=499_999)]
    desk.order()
    desk.work(60)
    row = desk.row
    assert (row.status, row.review_reason, row.due_at) == ("pending", REVIEW_AMOUNT.format("UGX 4,999.99"), None)
    assert desk.row.provider_transaction_id == "R-1"


def test_a_lost_payment_is_not_sent_again_while_another_worker_enquires(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [NOT_FOUND, PENDING]
    desk.order()
    (claimed,) = desk.processing.claim(1)
    desk.processing.advance(claimed)
    desk.clock.advance(70)
    taken_over: list[Transaction] = []

    def overtake(point: str) -> None:
        if point == "query.answered":
            assert desk.processing.bring_forward(desk.row.provider_reference)
            taken_over.extend(desk.processing.claim(1))

    slow = desk.another_worker(at_kill_point=overtake)
    (claimed,) = slow.claim(1)
    slow.advance(claimed)
    desk.processing.advance(*taken_over)
    desk.work(100)
    assert (desk.row.status, len(provider.asks)) == ("pending", 1)


@pytest.mark.parametrize("has_operator_settled", [False, True])
def test_nothing_is_sent_once_a_person_decides(desk: Desk, provider: FakeProvider, has_operator_settled: bool) -> None:
    provider.asked, provider.enquired = [UNKNOWN], [NOT_FOUND]
    desk.order("disbursement")
    desk.work()
    desk.clock.advance(61)
    (claimed,) = desk.processing.claim(1)
    desk.processing.advance(claimed)
    assert desk.row.asked_at is None, "it is about to be sent again"
    with_provider = desk.processing
    desk.processing = desk.another_worker(providers=Providers([]))
    desk.clock.advance(2 * 3600)
    desk.work()
    assert desk.row.review_reason == REVIEW_ELSEWHERE
    if has_operator_settled:
        desk.services.reviews.end(EndReview(desk.id, "no trace of it", "Ann", "Ben", has_succeeded=False), operator())
    desk.processing = with_provider
    desk.work(3 * 3600)
    assert len(provider.asks) == 1
    assert desk.row.status == ("failed" if has_operator_settled else "ambiguous")


def test_a_refund_that_falls_silent_keeps_its_reservation_and_is_asked_once(desk: Desk, provider: FakeProvider) -> None:
    provider.asked = [SUCCESS, UNKNOWN]
    original = desk.order()
    desk.work()
    provider.enquired = [UNKNOWN]
    created = desk.services.refunds.create(CreateRefund(original, "back"), desk.call)
    desk.id = created.transaction.transaction_id
    desk.work(1100)
    assert (desk.row.status, desk.row.review_reason) == ("ambiguous", REVIEW_SILENT)
    assert balances(desk.call.client_id)["main"] == (500_000, 500_000)
    assert len(provider.asks) == 2
    assert provider.asks[1].original_provider_transaction_id == "R-1"


def test_a_refund_that_cannot_be_queried_goes_to_review_as_soon_as_its_answer_is_lost(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.asked = [SUCCESS, replace(UNKNOWN, has_no_query=True)]
    original = desk.order()
    desk.work()
    created = desk.services.refunds.create(CreateRefund(original, "back"), desk.call)
    desk.id = created.transaction.transaction_id
    desk.work()
    assert (desk.row.status, desk.row.review_reason, desk.row.due_at) == ("ambiguous", REVIEW_SILENT, None)
    desk.work(3 * 3600)
    assert provider.enquiries == 0
