"""Random days of traffic: the statement of every account adds up for every period, and periods follow each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, row
from tests.support.books import check_everything
from tests.support.money import agree_fee, request
from ussd_server.bootstrap import Services
from ussd_server.models.ledger import Account, AccountEntry
from ussd_server.services.accounts.messages import FeeTerms, GetStatement
from ussd_server.services.transactions.messages import CreateRefund, TransactionType
from ussd_server.status import ServiceError

pytestmark = pytest.mark.slow

SAVER, OTHER_SAVER = "+256770000000", "+256770000009"
# Paid at once, refused, silent and found later, failed and succeeded later.
_NUMBERS = (SAVER, "+256770000001", "+256770000006", OTHER_SAVER)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_BOUNDS = 8

_steps = st.lists(
    st.tuples(
        st.sampled_from(("collect", "save", "disburse", "move", "refund", "pay out", "wait")),
        st.sampled_from(_NUMBERS),
        st.integers(1, 9_000),
    ),
    min_size=6,
    max_size=12,
)


@settings(max_examples=4, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps)
def test_opening_and_credits_less_debits_are_closing_for_every_period(
    services: Services, clock: MovableClock, steps: list[tuple[str, str, int]]
) -> None:
    desk = PayoutDesk(services, clock, 20_000)
    for kind in (TransactionType.COLLECTION, TransactionType.DISBURSEMENT):
        agree_fee(FeeTerms(desk.client_id, kind, 50, 100))
    collected: list[str] = []
    for place, (name, number, shillings) in enumerate(steps):
        try:
            _act(desk, name, number, shillings, place, collected)
        except ServiceError:
            # Too little money, or a collection that cannot be refunded: nothing moved.
            pass
        desk.work()
    for _ in range(6):
        clock.advance(10)
        desk.work()
    for account in Account.select().where(Account.client_id == desk.client_id):
        if account.name == "main" or account.name.startswith("+"):
            _compare_periods(services, desk, account)
    assert check_everything() == []


def _act(desk: PayoutDesk, name: str, number: str, shillings: int, place: int, collected: list[str]) -> None:
    create = desk.services.transactions.create
    named: dict[str, Any] = {"reference": f"r{place}"}
    if name in ("collect", "save"):
        account = {"account": number} if name == "save" else {}
        made = create(request("collection", number, shillings, **named, **account), desk.maker)
        collected.append(made.transaction.transaction_id)
    elif name == "disburse":
        create(request("disbursement", number, shillings, **named), desk.maker)
    elif name == "move":
        create(request("transfer", SAVER, shillings, to_phone_number=OTHER_SAVER, account=SAVER, **named), desk.maker)
    elif name == "refund" and collected:
        desk.services.refunds.create(CreateRefund(collected[-1], **named), desk.maker)
    elif name == "pay out":
        draft = desk.draft(row("a", number, shillings), row("b", SAVER, 100), reference=f"P{place}")
        desk.approve(draft)
    elif name == "wait":
        desk.clock.advance(5)


def _compare_periods(services: Services, desk: PayoutDesk, account: Account) -> None:
    statements = services.statements
    entries = AccountEntry.select(AccountEntry.posted_us).where(AccountEntry.account_id == account.id)
    moments = [_EPOCH + timedelta(microseconds=entry.posted_us) for entry in entries.order_by(AccountEntry.posted_us)]
    # Before everything, at movements, and after everything.
    bounds = [None, *moments[:_MOST_BOUNDS], moments[-1] + timedelta(microseconds=1) if moments else None, None]
    for (first, begin), (last, end) in combinations(enumerate(bounds), 2):
        found = statements.stream(GetStatement(account.name, begin, end), desk.maker)
        balance = found.opening_balance_cents
        lines = list(found.lines)
        for line in lines:
            assert (line.debit_cents is None) != (line.credit_cents is None)
            balance += (line.credit_cents or 0) - (line.debit_cents or 0)
            assert line.balance_cents == balance
        assert balance == found.closing_balance_cents
        if first > 0 and last < len(bounds) - 2:
            assert len(lines) == last - first, "each movement is in one period"
    whole = statements.stream(GetStatement(account.name), desk.maker)
    assert (whole.opening_balance_cents, whole.closing_balance_cents) == (0, account.balance_cents)
    assert len(list(whole.lines)) == len(moments)
    pages = [statements.get(GetStatement(account.name, *period), desk.maker) for period in pairwise(bounds)]
    assert all(one.closing_balance_cents == two.opening_balance_cents for one, two in pairwise(pages))
