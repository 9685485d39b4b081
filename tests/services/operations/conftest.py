"""Clean books with payments of every kind, for the tests of the check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.services.incoming.till import BY, SECOND, Till
from tests.support.money import a_client, call_with_key, deposit, operator, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import release_connection, unit_of_work
from ussd_server.models.ledger import Account
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.bank.messages import (
    ConfirmBankAccount,
    EndSettlement,
    ProposeSettlements,
    SettlementLine,
    StateBankAccount,
)
from ussd_server.services.clients.messages import CreateUser
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.services.movements.messages import CorrectMovement, EndMovement
from ussd_server.services.payouts.messages import ApprovePayout, CancelPayout, CreatePayout
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.outcomes import REVIEW_CONTRADICTION, open_review
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.services.ussd.messages import BeginSession

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
            recorded = services.transactions.create(request(kind, f"+2567700000{number}", 1000), call)
            names[f"{kind}_{number}"] = recorded.transaction.transaction_id
    work(services, clock, 12)
    refund = services.refunds.create(CreateRefund(names["collection_00"], "back"), call)
    names["refund"] = refund.transaction.transaction_id
    work(services, clock, 1)
    names["copy"] = "ffffffff-0000-7000-8000-000000000000"
    names["payout"] = _completed_payout(services, clock, call)
    names |= _drafts(services, call)
    names |= _reviews(services, clock, call)
    names["row"] = Transaction.get(Transaction.payout_id == names["payout"]).id
    names["key"] = Transaction.get_by_id(names["row"]).key_id
    names["deposit"] = Transaction.get(Transaction.client_id == call.client_id, Transaction.type == "deposit").id
    names |= _incoming(services, call)
    names |= _returned_settlement(services, call)
    names["session"] = _ended_session(services, clock)
    keyed = services.transactions.create(request(shillings=1, idempotency_key="mine"), call)
    names["keyed"] = keyed.transaction.transaction_id
    services.transactions.create(request(shillings=1, idempotency_key="mine"), other)
    for account in Account.select().where(Account.client_id == call.client_id):
        names[account.name.partition(":")[0]] = account.id
    names["foreign"] = Account.get(Account.client_id == other.client_id, Account.name == "main").id
    release_connection()
    return names


def _incoming(services: Services, call: RequestContext) -> Scene:
    """Payments that payers made by themselves: booked as `arrived`, held, returned, and corrected."""
    services.payment_codes.set_prefix(SetPrefix(call.client_id, "SCH"), operator())
    services.payment_codes.put(PutPaymentCode("SCH1", "Fees"), operator_context(call.client_id))
    till = Till(services)
    names = {"arrived": till.pay("SCH1", 10, "R1").transaction_id or ""}
    till.pay("SCH2", 10, "R2")
    till.pay("SCH2", 10, "R3")
    till.pay("SCH2", 10, "R4")
    rows = {row.receipt: row.id for row in Movement.select()}
    names |= {"booked": rows["R1"], "held": rows["R2"], "returned": rows["R3"], "sandbox": "sandbox"}
    services.movement_uses.mark_returned(EndMovement(rows["R3"], "asked for it", BY, SECOND), operator())
    wanted = CorrectMovement(rows["R4"], call.client_id, "told by the provider", BY, SECOND)
    services.corrections.correct(wanted, operator())
    names["corrected"] = Transaction.get(Transaction.type == "correction").id
    return names


def _returned_settlement(services: Services, call: RequestContext) -> Scene:
    """A settlement that the bank paid and sent back, and the deposit that returned its money."""
    owner = services.clients.create_user(
        CreateUser(call.client_id, "owner@acme.example", "owner", "Kampala-is-on-7-hills"), operator()
    )
    person = RequestContext(Caller(CallerKind.TOKEN, client_id=call.client_id, user_id=owner.user_id))
    services.bank_accounts.state(StateBankAccount("Stanbic", "9030", "ACME Ltd"), person)
    services.bank_accounts.confirm(ConfirmBankAccount(call.client_id, BY, number="9030"), operator())
    (due,) = services.bank_settlements.propose(ProposeSettlements(BY), operator())
    account = (due.bank, due.number, due.name)
    line = SettlementLine(2, call.client_id, *account, due.amount_cents, "FT1", due.settlement_id or "")
    settled = services.bank_settlements.record_line(line, BY, SECOND, operator())
    services.bank_settlements.record_return(EndSettlement(settled.settlement_id, BY, SECOND), operator())
    returned = Transaction.get(Transaction.reference == f"bank/returned/{settled.settlement_id}")
    return {"settled": settled.settlement_id, "credited": returned.id}


def _completed_payout(services: Services, clock: MovableClock, call: RequestContext) -> str:
    maker, approver = call_with_key(services, call), call_with_key(services, call, "payouts:*")
    rows = ({"phone_number": "+256770000000", "amount": 10, "reference": "row"}, {"reference": "invalid"})
    payout_id = services.payouts.create(CreatePayout("payout", items=rows), maker).payout.payout_id
    services.payouts.approve(ApprovePayout(payout_id), approver)
    for _ in range(2):
        services.payout_sender.advance(payout_id)
        work(services, clock)
    return payout_id


def _drafts(services: Services, call: RequestContext) -> Scene:
    """A draft that waits, and one that was cancelled."""
    payouts, rows = services.payouts, ({"phone_number": "+256770000000", "amount": 10, "reference": "row"},)
    maker = replace(call, caller=replace(call.caller, key_id=call.client_id))
    ids = {
        name: payouts.create(CreatePayout(name, items=rows), maker).payout.payout_id for name in ("draft", "cancelled")
    }
    payouts.cancel(CancelPayout(ids["cancelled"]), maker)
    return ids


def _reviews(services: Services, clock: MovableClock, call: RequestContext) -> Scene:
    """A late success whose review is open, and one whose review two operators closed."""
    names = {}
    for name in ("reviewed", "decided"):
        made = services.transactions.create(request("collection", "+256770000000", 10, reference=name), call)
        names[name] = made.transaction.transaction_id
    work(services, clock, 1)
    with unit_of_work():
        for transaction_id in names.values():
            row = lock_row(Transaction, transaction_id)
            open_review(row, REVIEW_CONTRADICTION, clock.now())
            row.save()
    services.reviews.end(EndReview(names["decided"], "Paid", "Ann", "Ben"), operator())
    return names


def _ended_session(services: Services, clock: MovableClock) -> str:
    shop = Shop(services)
    session_id = services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call).session_id
    clock.advance(300)
    services.api_sessions.end_expired()
    return session_id
