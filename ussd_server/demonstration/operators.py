"""The operators of the demonstration, and what a day leaves for them: a proposal, a bank account and a statement."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO, StringIO

from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.services.bank.messages import StateBankAccount
from ussd_server.services.movements.messages import ListMovements
from ussd_server.services.operators.messages import CreateOperator, Propose
from ussd_server.services.reconciliation.messages import ReconcileStatement
from ussd_server.services.transactions.messages import ListTransactions, TransactionStatus, TransactionView
from ussd_server.values import KAMPALA, ungrouped

EMAILS = ("operator@demonstration.example", "second-operator@demonstration.example")
_HEADINGS = ("Id", "External id", "Date", "Status", "Type", "From", "To", "Amount", "Currency", "Fee")
_TYPES = {"collection": "Payment", "disbursement": "Transfer", "refund": "Reversal"}
_TILL = "FRI:41000001/MM"


def make_operator(services: Services, email: str, password: str, old_password: str | None) -> str:
    """Return the password of an operator of the demonstration; creates the operator if missing."""
    context = operator_context()
    exists = email in {each.email for each in services.operators.list(context)}
    if exists and old_password is None:
        services.operators.change_password(email, password, context)
    elif not exists:
        services.operators.create(CreateOperator(email, password), context)
    return password


def leave_work(services: Services, code: str, by_owner: RequestContext) -> None:
    """Leave what a second operator confirms, and a statement of the sandbox that does not agree in three lines."""
    context = operator_context()
    by_operator = replace(context, caller=replace(context.caller, operator=EMAILS[0]))
    for held in services.movements.list(ListMovements(is_held=True), context).items:
        reason = f"The payer called: {code} was meant"
        wanted = Propose("movement.assign", held.movement_id, reason, {"code": code})
        services.proposals.propose(wanted, by_operator)
    services.bank_accounts.state(StateBankAccount("Stanbic Bank", "9030001234567", "Demonstration Ltd"), by_owner)
    file = BytesIO(_statement(services, by_owner).encode())
    services.provider_statements.reconcile(
        ReconcileStatement("sandbox", "sandbox-example.csv", file, is_confirmed=True), by_operator
    )


def person_context(services: Services, client_id: str, email: str) -> RequestContext:
    people = services.clients.list_users(client_id, operator_context(client_id))
    user_id = next(each.user_id for each in people if each.email == email)
    return RequestContext(Caller(CallerKind.TOKEN, client_id=client_id, user_id=user_id, grants=None))


def _statement(services: Services, context: RequestContext) -> str:
    """The day as the sandbox would write it, but an amount and a status differ, and one payment is not known here."""
    text = StringIO()
    lines = [_line(view) for view in _succeeded(services, context)]
    lines[0][7] = "1.00"
    lines[2][3] = "Failed"
    unknown = ["SBXUNKNOWN01", "", *lines[1][2:7], "5000.00", "UGX", "0"]
    csv.writer(text).writerows([_HEADINGS, *lines, unknown])
    return text.getvalue()


def _succeeded(services: Services, context: RequestContext) -> Iterator[TransactionView]:
    """The payments that the sandbox moved, newest first."""
    cursor: str | None = None
    while True:
        wanted = ListTransactions(status=TransactionStatus.SUCCEEDED, limit=100, cursor=cursor)
        page = services.transactions.list(wanted, context)
        yield from (view for view in page.items if view.provider and view.type in _TYPES)
        if (cursor := page.next_cursor) is None:
            return


def _line(view: TransactionView) -> list[str]:
    party = f"FRI:{(view.phone_number or '').removeprefix('+')}/MSISDN"
    sender, receiver = (party, _TILL) if view.type == "collection" else (_TILL, party)
    at = (view.completed_at or view.created_at).astimezone(KAMPALA).strftime("%Y-%m-%d %H:%M:%S")
    moved = [at, "Successful", _TYPES[view.type], sender, receiver, ungrouped(view.amount_cents), "UGX", "0"]
    return [view.provider_transaction_id or "", view.provider_reference or "", *moved]
