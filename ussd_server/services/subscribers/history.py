"""The history of a phone number with one client: payments, refunds, sessions and messages on one time line.

The payments of a number are those that it made or got, and those that others paid into its account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.models.clients import Client
from ussd_server.models.sending import Sms
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.accounts.balances import moved_on_accounts_of
from ussd_server.services.runtime import Runtime
from ussd_server.services.search.hits import message_hit, session_hit, transaction_hit
from ussd_server.services.subscribers.messages import GetHistory, History, HistoryEntry
from ussd_server.services.subscribers.pins import subscriber_number
from ussd_server.services.transactions.doubles import doubles_of
from ussd_server.services.transactions.history import views_of
from ussd_server.services.transactions.messages import TransactionType, TransactionView

_TABLES = {Transaction: "transactions:read", UssdSession: "ussd:read", Sms: "messages:read"}
"""What a history is read from, with what a caller needs to see it."""


class SubscriberHistoryService:
    def __init__(self, runtime: Runtime) -> None:
        self._tokens = runtime.tokens

    def get(self, request: GetHistory, context: RequestContext) -> History:
        """A page of the history, newest first. INVALID_PHONE_NUMBER for what is none.

        Ids begin with their time, so they order all kinds together.
        """
        context.require("transactions:read")
        number = subscriber_number(request.phone_number)
        kind = f"subscriber/{number}"
        before = None if request.cursor is None else self._tokens.read_cursor(kind, request.cursor)
        tables = [table for table, grant in _TABLES.items() if context.may(grant)]
        rows = _newest(tables, number, [context.client_id], request.limit + 1, before)
        has_next, rows = len(rows) > request.limit, rows[: request.limit]
        items = tuple(entry for _, entry in _entries(rows))
        return History(items, self._tokens.cursor(kind, rows[-1].id) if has_next else None)

    def of_all_clients(self, request: GetHistory, context: RequestContext) -> Sequence[tuple[str, HistoryEntry]]:
        """The newest entries of all clients, each with the id of its client. INVALID_PHONE_NUMBER for what is none."""
        context.require_operator()
        number = subscriber_number(request.phone_number)
        return _entries(_newest(list(_TABLES), number, Client.select(Client.id), request.limit))


def _newest(tables: Sequence[Any], number: str, clients: Any, limit: int, before: str | None = None) -> list[Any]:
    """The newest rows of a number with some clients, of all tables together."""
    rows_by_id: dict[str, Any] = {}
    for table in tables:
        is_theirs = [table.phone_number == number]
        if table is Transaction:
            is_theirs.append(Transaction.id.in_(moved_on_accounts_of(number)))
        for condition in is_theirs:
            rows = table.select().where(table.client_id.in_(clients), condition)
            if before is not None:
                rows = rows.where(table.id < before)
            rows_by_id |= {str(row.id): row for row in rows.order_by(table.id.desc()).limit(limit)}
    return [rows_by_id[row_id] for row_id in sorted(rows_by_id, reverse=True)][:limit]


def _entries(rows: Sequence[Transaction | Sms | UssdSession]) -> list[tuple[str, HistoryEntry]]:
    """What happened, each with the id of its client."""
    payments = [row for row in rows if isinstance(row, Transaction)]
    doubled, views = doubles_of(payments), {view.transaction_id: view for view in views_of(payments)}
    return [(row.client_id, _entry(row, views, row.id in doubled)) for row in rows]


def _entry(
    row: Transaction | Sms | UssdSession, views: Mapping[str, TransactionView], possible_double: bool
) -> HistoryEntry:
    if isinstance(row, Transaction):
        # The client's fee is none of the subscriber's business.
        hit, amount_cents = transaction_hit(row, replace(views[row.id], fee_cents=0), None), row.amount_cents
        kind = "refund" if row.type == TransactionType.REFUND else "payment"
    elif isinstance(row, Sms):
        kind, hit, amount_cents = "message", message_hit(row, None), None
    else:
        kind, hit, amount_cents = "session", session_hit(row, None), None
    return HistoryEntry(
        kind, row.id, row.created_at, hit.title, hit.sentence, amount_cents, row.status, possible_double
    )
