"""The daily limit of a key: exact, whatever pays at once, and counted once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import row
from tests.support.books import check_everything
from tests.support.crowd import at_once, refusals
from tests.support.money import agree_fee, deposit, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext, operator_context
from ussd_server.models.keys import KeySpending
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.clients.keys.messages import ApiKeyView, CreateApiKey, UpdateApiKey
from ussd_server.services.clients.messages import CreateClient
from ussd_server.services.payouts.messages import ApprovePayout, CancelPayout, CreatePayout
from ussd_server.services.transactions.messages import CreateRefund, TransactionType
from ussd_server.status import Code, ServiceError

REACHED = "More than the API key may still pay today; GET /api/key shows what is left"


class Spender:
    """A client with money, and a key of it."""

    def __init__(self, services: Services, limit: int | None, *scopes: str, client_id: str | None = None) -> None:
        self.services = services
        self.client_id = client_id or services.clients.create(CreateClient("ACME"), operator_context()).client_id
        self.operator = operator_context(self.client_id)
        self.key: ApiKeyView = services.api_keys.create(
            CreateApiKey(scopes or None, daily_limit_cents=limit and limit * 100), self.operator
        )
        self.call = RequestContext(
            services.auth.authenticate_key(self.key.apikey, self.key.apisecret, "192.0.2.1").caller
        )

    def limit(self, shillings: int | None) -> None:
        """Change the limit of the key."""
        request = UpdateApiKey(self.key.id, daily_limit_cents=shillings and shillings * 100)
        self.services.api_keys.update(request, self.operator)

    def pay(self, reference: str, shillings: int = 1000, number: str = "+256770000000") -> object:
        """Pay out so much."""
        return self.services.transactions.create(
            request("disbursement", number, shillings, reference=reference), self.call
        )

    def left(self) -> int | None:
        """What the key may still pay, in cents."""
        return self.services.key_reader.own(self.call).daily_remaining_cents


def refused(spender: Spender, reference: str, shillings: int = 1000) -> bool:
    """Whether a payment is refused by the daily limit."""
    try:
        spender.pay(reference, shillings)
    except ServiceError as refusal:
        if (refusal.code, refusal.message) == (Code.DAILY_LIMIT_REACHED, REACHED):
            return True
        raise
    return False


@pytest.fixture
def spender(services: Services) -> Spender:
    made = Spender(services, 10_000)
    deposit(services, made.call, 1_000_000)
    return made


def test_of_forty_payments_at_once_as_many_are_made_as_the_limit_allows_fees_included(
    services: Services, spender: Spender
) -> None:
    agree_fee(FeeTerms(spender.client_id, TransactionType.DISBURSEMENT, 5_000, 0))
    free = Spender(services, None, client_id=spender.client_id)
    answers = at_once(
        [partial(spender.pay, f"{number}") for number in range(40)]
        + [partial(free.pay, f"free {number}") for number in range(20)]
    )
    assert Counter(refusals(answers)) == {REACHED: 31}
    assert spender.left() == 10_000_00 - 9 * 1_050_00
    assert free.left() is None
    assert not refused(spender, "the rest", 500)
    assert refused(spender, "a shilling", 1)
    assert check_everything() == []


def test_payouts_and_refunds_count_and_a_refused_one_writes_nothing(
    services: Services, spender: Spender, clock: MovableClock
) -> None:
    sale = services.transactions.create(request(shillings=5000, reference="sale"), spender.call)
    work(services, clock, 2)
    services.refunds.create(CreateRefund(sale.transaction.transaction_id, "back", 4000_00), spender.call)
    assert spender.left() == 6000_00
    approver = Spender(services, 2500, "payouts:*", client_id=spender.client_id)
    maker = replace(spender.call, caller=replace(spender.call.caller, grants=frozenset({"payouts:write"})))
    rows = [row(f"r{place}", amount=1000) for place in range(3)]
    large = services.payouts.create(CreatePayout("large", items=rows), maker).payout
    with pytest.raises(ServiceError, match=REACHED):
        services.payouts.approve(ApprovePayout(large.payout_id), approver.call)
    assert Transaction.select().where(Transaction.payout_id == large.payout_id).count() == 0
    small = services.payouts.create(CreatePayout("small", items=rows[:2]), maker).payout
    services.payouts.approve(ApprovePayout(small.payout_id), approver.call)
    services.payouts.approve(ApprovePayout(small.payout_id), approver.call)
    assert approver.left() == 500_00
    with pytest.raises(ServiceError, match=REACHED):
        services.refunds.create(
            CreateRefund(sale.transaction.transaction_id, "more", 501_00),
            replace(approver.call, caller=replace(approver.call.caller, grants=None)),
        )
    services.payouts.cancel(CancelPayout(small.payout_id), approver.call)
    assert approver.left() == 2500_00, "what was released unsent counts no more"
    assert check_everything() == []


def approved_for_later(services: Services, spender: Spender, limit: int, clock: MovableClock) -> tuple[Spender, str]:
    """A payout of UGX 2,000 in three days, and the key with this limit that approved it."""
    approver = Spender(services, limit, "payouts:*", client_id=spender.client_id)
    maker = replace(spender.call, caller=replace(spender.call.caller, grants=frozenset({"payouts:write"})))
    rows = [row("a", amount=1000), row("b", amount=1000)]
    order = CreatePayout("later", items=rows, send_at=clock.now() + timedelta(days=3))
    payout_id = services.payouts.create(order, maker).payout.payout_id
    services.payouts.approve(ApprovePayout(payout_id), approver.call)
    return approver, payout_id


def test_a_payout_with_a_date_counts_on_the_day_on_which_it_is_reserved(
    services: Services, spender: Spender, clock: MovableClock
) -> None:
    approver, payout_id = approved_for_later(services, spender, 2500, clock)
    assert approver.left() == 2500_00
    approver.limit(1500)

    def look() -> str | None:
        for claimed in services.payout_sender.claim(5):
            services.payout_sender.advance(claimed)
        view = services.payouts.get(payout_id, approver.call)
        return "reserved" if view.reserved_at else "needs money" if view.needs_money_at else None

    clock.advance(3 * 86_400)
    assert look() == "needs money", "the key may not pay that much"
    approver.limit(2500)
    clock.advance(3600)
    assert (look(), approver.left()) == ("reserved", 500_00)
    assert check_everything() == []


@pytest.mark.parametrize("limit_when_due", [None, 3000])
def test_the_lower_limit_counts_of_that_at_the_approval_and_that_when_a_payout_is_due(
    services: Services, spender: Spender, clock: MovableClock, limit_when_due: int | None
) -> None:
    approver, payout_id = approved_for_later(services, spender, 1500, clock)
    approver.limit(limit_when_due)
    clock.advance(3 * 86_400)
    for claimed in services.payout_sender.claim(5):
        services.payout_sender.advance(claimed)
    view = services.payouts.get(payout_id, approver.call)
    assert view.needs_money_at is not None
    assert view.reserved_at is None
    assert Transaction.select().where(Transaction.payout_id == payout_id).count() == 0
    assert check_everything() == []


def test_a_repeat_is_not_counted_and_is_answered_beyond_the_limit(spender: Spender) -> None:
    first = spender.pay("one", 6000)
    assert refused(spender, "two", 6000)
    assert spender.pay("one", 6000).transaction == first.transaction  # type: ignore[attr-defined]
    assert spender.left() == 4000_00


def test_a_new_limit_counts_what_was_paid_before_it(services: Services, spender: Spender) -> None:
    spender.limit(None)
    spender.pay("morning", 20_000)
    spender.limit(20_500)
    assert refused(spender, "evening", 501)
    assert not refused(spender, "evening", 500)
    spender.limit(1_000)
    assert spender.left() == 0
    assert refused(spender, "night", 1)


def test_a_day_ends_at_midnight_in_kampala(services: Services, spender: Spender, clock: MovableClock) -> None:
    spender.pay("today", 10_000)
    assert refused(spender, "more")
    clock.advance(86_400)
    assert spender.left() == 10_000_00
    assert not refused(spender, "tomorrow", 10_000)
    days = [each.day for each in KeySpending.select().order_by(KeySpending.day)]
    assert len(days) == len(set(days)) == 2
    assert check_everything() == []


def test_a_payment_that_fails_stays_counted(services: Services, spender: Spender, clock: MovableClock) -> None:
    spender.pay("fails", 6000, "+256770000001")
    work(services, clock, 2)
    assert Transaction.get(Transaction.reference == "fails").status == "failed"
    assert refused(spender, "again", 6000)
