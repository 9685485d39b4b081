"""Failures: what a provider reports after it has reported a failure, and when it is asked again."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk
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
from tests.support.money import balances
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import ProviderAnswer
from ussd_server.services.processing.outcomes import REVIEW_ELSEWHERE, REVIEW_LATE, REVIEW_RETRACTED
from ussd_server.services.processing.processor import PaymentProcessor
from ussd_server.services.providers.providers import Providers
from ussd_server.services.transactions.messages import TransactionStatus


def test_a_failure_is_enquired_again_and_an_enquiry_that_failed_is_repeated(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [FAILURE], [UNKNOWN, SUCCESS]
    desk.order()
    desk.work(700)
    assert (desk.row.status, provider.enquiries) == ("failed", 1)
    desk.work(600)
    row = desk.row
    assert (row.status, row.late, row.review_reason) == ("succeeded", True, REVIEW_LATE)
    assert row.review_closed_at is None


def test_a_failure_that_stays_one_is_looked_at_once(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [FAILURE], [FAILURE]
    desk.order()
    desk.work(5000)
    assert (desk.row.status, desk.row.due_at, provider.enquiries) == ("failed", None, 1)
    assert desk.statuses == ["created", "submitted", "failed"]


def test_a_failure_that_a_silent_provider_never_confirms_is_enquired_no_longer_than_a_payment(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.asked, provider.enquired = [FAILURE], [UNKNOWN]
    desk.order()
    desk.work(3 * 3600)
    assert (desk.row.status, desk.row.due_at, desk.row.review_opened_at) == ("failed", None, None)


@pytest.mark.parametrize("kind", ["collection", "disbursement"])
def test_a_failure_that_the_provider_takes_back_is_asked_about_until_it_is_decided(
    desk: Desk, provider: FakeProvider, kind: str
) -> None:
    provider.asked, provider.enquired = [FAILURE], [PENDING, PENDING, SUCCESS]
    desk.order(kind)
    desk.work(700)
    row = desk.row
    assert (row.status, row.review_reason, row.review_closed_at) == ("failed", REVIEW_RETRACTED, None)
    desk.work(1300)
    assert desk.events("transaction.needs_review") == 1
    desk.work(3700)
    row = desk.row
    assert (row.status, row.late, row.review_reason, row.due_at) == ("succeeded", True, REVIEW_LATE, None)
    assert desk.statuses == ["created", "submitted", "failed", "succeeded"]
    assert check_everything() == []


def test_a_failure_that_was_retracted_and_then_confirmed_needs_no_review(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [FAILURE], [PENDING, UNKNOWN, UNKNOWN, FAILURE]
    desk.order("disbursement")
    desk.work(2 * 3600)
    assert provider.enquiries == 3, "hourly, when the provider has not decided for long"
    desk.work(3600)
    row = desk.row
    assert (row.status, row.review_reason, row.due_at) == ("failed", REVIEW_RETRACTED, None)
    assert row.review_closed_at is not None


@pytest.mark.parametrize("older", [PENDING, UNKNOWN, NOT_FOUND, FAILURE])
def test_an_answer_that_is_older_than_a_failure_does_not_end_the_look_after_it(
    desk: Desk, provider: FakeProvider, older: ProviderAnswer
) -> None:
    provider.enquired = [FAILURE, older, SUCCESS]
    desk.order()
    desk.work()
    desk.clock.advance(6)

    def overtake() -> None:
        provider.while_enquired = lambda: None
        assert desk.processing.bring_forward(desk.row.provider_reference)
        other = desk.another_worker()
        (claimed,) = other.claim(1)
        other.advance(claimed)
        assert desk.row.status == "failed"

    provider.while_enquired = overtake
    (claimed,) = desk.processing.claim(1)
    desk.processing.advance(claimed)
    assert (desk.row.review_opened_at, desk.row.completed_at is None) == (None, False)
    desk.work(590)
    assert desk.row.status == "failed"
    desk.work(20)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


def test_a_callback_soon_after_a_failure_does_not_spare_the_later_look(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [FAILURE], [FAILURE, SUCCESS]
    desk.order()
    desk.work(1)
    assert desk.processing.bring_forward(desk.row.provider_reference)
    desk.work(590)
    assert (desk.row.status, provider.enquiries) == ("failed", 1)
    desk.work(10)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


def test_a_callback_during_the_look_after_a_failure_is_followed(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [FAILURE], [FAILURE, SUCCESS]
    desk.order()
    desk.work()

    def call_back() -> None:
        provider.while_enquired = lambda: None
        assert desk.processing.bring_forward(desk.row.provider_reference)

    provider.while_enquired = call_back
    desk.clock.advance(601)
    desk.work(1)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


def test_a_failure_that_overtakes_an_enquiry_is_enquired_as_late_as_any(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [PENDING], [PENDING, FAILURE]
    desk.order()
    desk.work()

    def overtake() -> None:
        provider.while_enquired = lambda: None
        assert desk.processing.bring_forward(desk.row.provider_reference)

    provider.enquired = [FAILURE]
    provider.while_enquired = overtake
    desk.clock.advance(6)
    desk.work(300)
    assert (desk.row.status, provider.enquiries) == ("failed", 1)
    provider.enquired = [SUCCESS]
    desk.work(400)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


def test_the_query_after_a_failure_waits_for_a_disabled_provider(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [FAILURE], [SUCCESS]
    desk.order()
    desk.work()
    with_provider = desk.processing
    desk.processing = desk.another_worker(providers=Providers([]))
    desk.clock.advance(600)
    desk.work()
    assert desk.row.status == "failed"
    desk.processing = with_provider
    desk.work(3700)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


@pytest.mark.parametrize("was_sent", [False, True])
def test_disabling_a_provider_ends_only_payments_that_were_never_sent(
    desk: Desk, provider: FakeProvider, was_sent: bool
) -> None:
    desk.order("disbursement")
    if was_sent:
        desk.work()
    desk.processing = desk.another_worker(providers=Providers([]))
    desk.work(100)
    assert desk.row.status == ("pending" if was_sent else "failed")
    desk.clock.advance(2 * 3600)
    desk.work()
    assert desk.row.review_reason == (REVIEW_ELSEWHERE if was_sent else None)
    if was_sent:
        provider.enquired = [SUCCESS]
        desk.processing = desk.another_worker()
        desk.work(3700)
        assert desk.row.status == TransactionStatus.SUCCEEDED


def test_a_payment_that_was_never_sent_fails_when_its_provider_is_disabled(desk: Desk, provider: FakeProvider) -> None:
    provider.asked = [NOT_SENT]
    desk.order("disbursement")
    desk.work()
    assert desk.row.status == "submitted"
    desk.processing = desk.another_worker(providers=Providers([]))
    desk.work(70)
    assert (desk.row.status, desk.row.failure_code) == ("failed", "PROVIDER_UNAVAILABLE")


def test_an_unsent_row_of_a_payout_waits_while_its_provider_is_disabled_until_it_is_cancelled(
    services: Services, clock: MovableClock
) -> None:
    payouts = PayoutDesk(services, clock)
    payout = payouts.draft_of(1)
    payouts.approve(payout)
    payouts.tick()
    without_provider = PaymentProcessor(other_runtime(services, providers=Providers([])))
    (released,) = without_provider.claim(9)
    without_provider.advance(released)
    row = Transaction.get_by_id(released.id)
    assert (row.status, row.due_at > clock.now(), row.lease_token) == ("created", True, None)
    payouts.cancel(payout)
    clock.advance(600)
    without_provider.advance(*without_provider.claim(9))
    row = Transaction.get_by_id(released.id)
    assert (row.status, row.failure_code, payouts.main()) == ("failed", "CANCELLED", (50_000_000, 0))


def test_what_another_worker_has_just_called_off_is_not_sent(desk: Desk, provider: FakeProvider) -> None:
    desk.order()
    provider.enquired = [NOT_FOUND]
    without_provider = desk.another_worker(providers=Providers([]))

    def call_off(point: str) -> None:
        if point == "claimed":
            desk.clock.advance(61)
            (taken_over,) = without_provider.claim(1)
            without_provider.advance(taken_over)

    slow = desk.another_worker(at_kill_point=call_off)
    (claimed,) = slow.claim(1)
    slow.advance(claimed)
    assert (provider.asks, desk.row.status) == ([], "failed")


def test_a_callback_after_a_failure_finds_the_late_success(desk: Desk, provider: FakeProvider) -> None:
    provider.asked, provider.enquired = [FAILURE], [SUCCESS]
    desk.order("disbursement")
    desk.work()
    assert desk.processing.bring_forward(desk.row.provider_reference)
    desk.work()
    row = desk.row
    assert (row.status, row.late, row.review_reason) == ("succeeded", True, REVIEW_LATE)
    assert row.provider_transaction_id == "R-1"
    assert balances(desk.call.client_id)["main"] == (0, 0)
