"""Whatever is done to payouts in whatever order, their sums, the reservations and the balances agree with each other,
and at the end with what the provider paid, which pays no row twice.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, code_of, row
from tests.support.books import check_everything
from tests.support.money import agree_fee, call_with_key, operator
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.payouts import PayoutAttempt
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction, PaymentOrder, ProviderAnswer
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.clients.keys.messages import UpdateApiKey
from ussd_server.services.payouts.messages import ItemState, PayoutStatus, PayoutView, RetryPayout
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

_FEE_CENTS = 1_000
_CLIENT_CENTS = 2_000_000
# The sandbox pays the first, refuses the second, lets the third wait before it pays, gives no answer for the fourth,
# loses the fifth, and reports the last as failed before it pays.
_NUMBERS = ("+256770000000", "+256770000001", "+256770000004", "+256770000006", "+256770000007", "+256770000009")
_NEVER_PAID = ("+256770000001", "+256770000007")
Paid = dict[str, int]
_WAITING = (ItemState.QUEUED, ItemState.SENT)

_rows = st.lists(st.tuples(st.sampled_from((*_NUMBERS, "0772")), st.integers(1, 9_000)), min_size=1, max_size=4)
_days = st.sampled_from((None, None, 0.5, 2))
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.tuples(_rows, _days)),
        st.tuples(st.sampled_from(("approve", "cancel", "retry", "pay", "pay", "pay")), st.integers(0, 2)),
        st.tuples(st.just("limit"), st.sampled_from((1_000, 500_000, None))),
        st.tuples(st.just("revoke"), st.sampled_from(("maker", "approver"))),
        st.tuples(st.just("settle"), st.none()),
        st.tuples(st.just("work"), st.sampled_from((0, 1, 2, 5, 30))),
        st.tuples(st.just("wait"), st.sampled_from((0.6, 1.5))),
    ),
    min_size=3,
    max_size=20,
)

# One row is refused for certain; the failure of the other is taken back after a second attempt could have paid.
_RETRIED_SOON = [
    ("create", ([("+256770000001", 5_000), ("+256770000009", 7_000)], None)),
    *[("pay", 0), ("work", 2)] * 2,
    ("work", 5),
    ("pay", 0),
]


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps)
@example(steps=_RETRIED_SOON)
def test_sums_reservations_and_balances_agree_after_every_step(
    services: Services, clock: MovableClock, paid: Paid, steps: list[tuple[str, Any]]
) -> None:
    paid.clear()
    desk = PayoutDesk(services, clock, _CLIENT_CENTS // 100)
    agree_fee(FeeTerms(desk.client_id, TransactionType.DISBURSEMENT, _FEE_CENTS, 0))
    payouts: list[PayoutView] = []
    for name, value in steps:
        if name == "create":
            given, days = value
            rows = (row(f"r{place}", number, amount) for place, (number, amount) in enumerate(given))
            send_at = days and clock.now() + timedelta(days=days)
            payouts.append(desk.draft(*rows, reference=f"P{len(payouts)}", send_at=send_at))
        elif name == "wait":
            clock.advance(value * 86_400)
            desk.work()
        elif name == "work":
            desk.work(value)
        elif name == "limit":
            assert desk.approver.caller.key_id is not None
            change = UpdateApiKey(desk.approver.caller.key_id, daily_limit_cents=value)
            services.api_keys.change(change, operator_context(desk.client_id))
        elif name == "revoke":
            _revoke(desk, value)
        elif name == "settle":
            _settle(desk, paid)
        elif payouts:
            payout = desk.see(payouts[value % len(payouts)])
            refused = code_of(partial(_ACTS[name], desk, payout))
            assert refused in (None, *_REFUSALS)
        _compare(desk, payouts)
    for _ in range(8):
        clock.advance(43_200)
        desk.work(1)
        _settle(desk, paid)
    _compare(desk, payouts)
    rows = [(item.payout_id, item.line) for item in map(_attempt_of, paid)]
    assert len(rows) == len(set(rows))
    assert desk.main() == (_CLIENT_CENTS - sum(cents + min(cents, _FEE_CENTS) for cents in paid.values()), 0)
    assert check_everything() == []


@pytest.fixture
def paid(services: Services, monkeypatch: pytest.MonkeyPatch) -> Paid:
    """What the provider pays of what it is sent, in cents, by its names."""
    paid: Paid = {}
    sandbox = services.runtime.providers.get("sandbox")
    assert sandbox is not None
    send = sandbox.send

    def note(payment: PaymentOrder, seconds: float) -> ProviderAnswer:
        if payment.phone_number not in _NEVER_PAID and payment.direction is Direction.DISBURSEMENT:
            paid[payment.provider_reference] = payment.amount_cents
        return send(payment, seconds)

    monkeypatch.setattr(sandbox, "send", note)
    return paid


def _attempt_of(provider_reference: str) -> PayoutAttempt:
    row = Transaction.get(Transaction.provider_reference == provider_reference)
    attempt: PayoutAttempt = PayoutAttempt.get(PayoutAttempt.transaction_id == row.id)
    return attempt


def _revoke(desk: PayoutDesk, name: str) -> None:
    """Disable the key of the maker or the approver, and give them another."""
    client = operator_context(desk.client_id)
    desk.services.api_keys.set_active(getattr(desk, name).caller.key_id, False, client)
    setattr(desk, name, call_with_key(desk.services, client, *(["payouts:*"] if name == "approver" else [])))


def _settle(desk: PayoutDesk, paid: Paid) -> None:
    """End every open review as the provider's records have it."""
    for review in desk.services.reviews.list(operator()):
        row = Transaction.get_by_id(review.transaction.transaction_id)
        is_paid = row.provider_reference in paid
        outcome = None if row.completed_at and is_paid == (row.status == "succeeded") else is_paid
        ended = EndReview(row.id, "As the provider's records have it", "Mary Akello", "John Okot", outcome)
        desk.services.reviews.end(ended, operator())


def _retry(desk: PayoutDesk, payout: PayoutView) -> PayoutView:
    return desk.payouts.retry(RetryPayout(payout.payout_id), desk.maker).payout


def _pay(desk: PayoutDesk, payout: PayoutView) -> None:
    desk.approve(payout if payout.status is PayoutStatus.DRAFT else _retry(desk, payout))


_ACTS = {"approve": PayoutDesk.approve, "cancel": PayoutDesk.cancel, "retry": _retry, "pay": _pay}
_REFUSALS = (Code.INVALID_REQUEST, Code.INSUFFICIENT_BALANCE, Code.DAILY_LIMIT_REACHED)


def _compare(desk: PayoutDesk, payouts: list[PayoutView]) -> None:
    """The main account against what the rows say."""
    reserved = paid = 0
    for payout in map(desk.see, payouts):
        assert sum(entry.count for entry in payout.states.values()) == payout.item_count
        ready = [entry for state, entry in payout.states.items() if state is not ItemState.INVALID]
        assert sum(entry.amount_cents for entry in ready) == payout.total_amount_cents
        assert sum(entry.fee_cents for entry in ready) == payout.total_fee_cents
        sums = {state: entry.amount_cents + entry.fee_cents for state, entry in payout.states.items()}
        reserved += sum(sums.get(state, 0) for state in _WAITING)
        paid += sums.get(ItemState.SUCCEEDED, 0)
    assert desk.main() == (_CLIENT_CENTS - paid, reserved)
