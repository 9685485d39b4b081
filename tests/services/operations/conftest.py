"""Clean books with payments of every kind, for the tests of the check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.support.money import a_client, deposit, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.database.ids import new_id
from ussd_server.database.unit_of_work import release_connection
from ussd_server.messages.payouts import CreatePayout, NamePayout
from ussd_server.messages.sessions import BeginSession
from ussd_server.messages.transactions import CreateRefund
from ussd_server.models.ledger import Account
from ussd_server.models.transactions import Transaction

Scene = dict[str, str]


@pytest.fixture
def scene(services: Services, clock: MovableClock) -> Scene:
    """A client whose payments ended in every way, and one whose books are left alone."""
    call, other = a_client(), a_client("Other")
    deposit(services, other, 500)
    deposit(services, call, 100_000)
    names = {"client": call.client_id, "other": other.client_id}
    for number in ("00", "01", "04", "06", "07", "09"):
        for kind in ("collection", "disbursement"):
            recorded = services.transactions.transactions.create(request(kind, f"+2567700000{number}", 1000), call)
            names[f"{kind}_{number}"] = recorded.transaction.transaction_id
    work(services, clock, 12)
    refund = services.transactions.refunds.create(CreateRefund(names["collection_00"], "back"), call)
    names["refund"] = refund.transaction.transaction_id
    work(services, clock, 1)
    names["copy"] = "ffffffff-0000-7000-8000-000000000000"
    names["payout"] = _completed_payout(services, clock, call)
    names["row"] = Transaction.get(Transaction.payout_id == names["payout"]).id
    names["deposit"] = Transaction.get(Transaction.client_id == call.client_id, Transaction.type == "deposit").id
    names["session"] = _ended_session(services, clock)
    keyed = services.transactions.transactions.create(request(shillings=1, idempotency_key="mine"), call)
    names["keyed"] = keyed.transaction.transaction_id
    services.transactions.transactions.create(request(shillings=1, idempotency_key="mine"), other)
    for account in Account.select().where(Account.client_id == call.client_id):
        names[account.name.partition(":")[0]] = account.id
    names["foreign"] = Account.get(Account.client_id == other.client_id, Account.name == "main").id
    release_connection()
    return names


def _completed_payout(services: Services, clock: MovableClock, call: RequestContext) -> str:
    maker, approver = (replace(call, caller=replace(call.caller, key_id=new_id(clock.now()))) for _ in range(2))
    rows = ({"phone_number": "+256770000000", "amount": 10, "reference": "row"}, {"reference": "invalid"})
    payout_id = services.payouts.payouts.create(CreatePayout("payout", items=rows), maker).payout.payout_id
    approver = replace(approver, caller=replace(approver.caller, grants=frozenset({"payouts:*"})))
    services.payouts.payouts.approve(NamePayout(payout_id), approver)
    for _ in range(2):
        services.payouts.sender.advance(payout_id)
        work(services, clock)
    return payout_id


def _ended_session(services: Services, clock: MovableClock) -> str:
    shop = Shop(services)
    session_id = services.ussd.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call).session_id
    clock.advance(300)
    services.ussd.api_sessions.end_expired()
    return session_id
