"""The history of a phone number with one client: payments, refunds, sessions and messages on one time line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.models.sending import Sms
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.runtime import Runtime
from ussd_server.services.search.hits import message_hit, session_hit, transaction_hit
from ussd_server.services.subscribers.messages import GetHistory, History, HistoryEntry
from ussd_server.services.subscribers.pins import subscriber_number
from ussd_server.services.transactions.messages import TransactionStatus, TransactionType
from ussd_server.values import new_id_floor

_DOUBLED_WITHIN = timedelta(minutes=10)
_MOST_COMPARED = 1000


class SubscriberHistoryService:
    """Reads the history of a phone number."""

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
        may_see = {Transaction: True, UssdSession: context.may("ussd:read"), Sms: context.may("messages:read")}
        tables = [table for table, may in may_see.items() if may]
        rows = [row for table in tables for row in _newest(table, number, before, request.limit + 1, context)]
        rows.sort(key=lambda row: str(row.id), reverse=True)
        has_next, rows = len(rows) > request.limit, rows[: request.limit]
        doubled = _doubled([row for row in rows if isinstance(row, Transaction)])
        items = tuple(_entry(row, row.id in doubled) for row in rows)
        return History(items, self._tokens.cursor(kind, rows[-1].id) if has_next else None)


def _newest(table: Any, number: str, before: str | None, limit: int, context: RequestContext) -> Sequence[Any]:
    rows = table.select().where(table.client_id == context.client_id, table.phone_number == number)
    if before is not None:
        rows = rows.where(table.id < before)
    return list(rows.order_by(table.id.desc()).limit(limit))


def _doubled(rows: Sequence[Transaction]) -> set[str]:
    """The ids of those payments that another one of the same subscriber, type and amount is close to.

    A failed payment moved nothing, so it doubles none.
    """
    paid = [row for row in rows if _may_double(row)]
    if not paid:
        return set()
    near: Any = None
    for row in paid:
        low, high = (new_id_floor(row.created_at + side * _DOUBLED_WITHIN) for side in (-1, 1))
        is_near = (Transaction.id >= low) & (Transaction.id < high) & (Transaction.amount_cents == row.amount_cents)
        near = is_near if near is None else near | is_near
    others = Transaction.select(
        Transaction.id, Transaction.type, Transaction.status, Transaction.amount_cents, Transaction.created_at
    ).where(Transaction.client_id == paid[0].client_id, Transaction.phone_number == paid[0].phone_number, near)
    candidates = [other for other in others.limit(_MOST_COMPARED) if _may_double(other)]
    return {row.id for row in paid if any(_is_double(row, other) for other in candidates)}


def _may_double(row: Transaction) -> bool:
    return row.status != TransactionStatus.FAILED and row.type != TransactionType.REFUND


def _is_double(row: Transaction, other: Transaction) -> bool:
    is_same = (row.type, row.amount_cents) == (other.type, other.amount_cents)
    return other.id != row.id and is_same and abs(row.created_at - other.created_at) <= _DOUBLED_WITHIN


def _entry(row: Any, possible_double: bool) -> HistoryEntry:
    if isinstance(row, Transaction):
        hit, amount_cents = transaction_hit(row, None, for_subscriber=True), row.amount_cents
        kind = "refund" if row.type == TransactionType.REFUND else "payment"
    elif isinstance(row, Sms):
        kind, hit, amount_cents = "message", message_hit(row, None), None
    else:
        kind, hit, amount_cents = "session", session_hit(row, None), None
    return HistoryEntry(
        kind, row.id, row.created_at, hit.title, hit.sentence, amount_cents, row.status, possible_double
    )
