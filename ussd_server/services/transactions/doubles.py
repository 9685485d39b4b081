"""Payments that may be one payment made twice: the same subscriber, type and amount within ten minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ussd_server.models.transactions import Transaction
from ussd_server.services.transactions.messages import TransactionStatus, TransactionType
from ussd_server.values import new_id_floor

_DOUBLED_WITHIN = timedelta(minutes=10)
_MOST_COMPARED = 1000
_SAME = ("client_id", "type", "phone_number", "amount_cents")
_COLUMNS = (
    Transaction.id,
    Transaction.client_id,
    Transaction.type,
    Transaction.phone_number,
    Transaction.status,
    Transaction.amount_cents,
    Transaction.created_at,
)


def doubles_of(rows: Sequence[Transaction]) -> Mapping[str, str]:
    """Those payments that another one of the same client, subscriber, type and amount is close to, with its id.

    A failed payment moved nothing, so it doubles none.
    """
    paid = [row for row in rows if _may_double(row)]
    if not paid:
        return {}
    near: Any = None
    for row in paid:
        is_near = _is_within(row.created_at) & (Transaction.amount_cents == row.amount_cents)
        near = is_near if near is None else near | is_near
    first, last = min(row.created_at for row in paid), max(row.created_at for row in paid)
    others = Transaction.select(*_COLUMNS).where(
        # Of a number that pays often, the payments of all years would be read.
        _is_within(first, last),
        Transaction.client_id.in_({row.client_id for row in paid}),
        Transaction.phone_number.in_({row.phone_number for row in paid}),
        near,
    )
    candidates = [other for other in others.limit(_MOST_COMPARED) if _may_double(other)]
    return {row.id: other.id for row in paid for other in candidates if _is_double(row, other)}


def equal_payment(
    client_id: str, payment_type: TransactionType, number: str, amount_cents: int, now: datetime
) -> Transaction | None:
    """The newest payment of the last ten minutes that an equal request would double; None without one."""
    payment: Transaction | None = (
        Transaction.select()
        .where(
            Transaction.client_id == client_id,
            Transaction.phone_number == number,
            _is_within(now),
            Transaction.type == payment_type,
            Transaction.amount_cents == amount_cents,
            Transaction.status != TransactionStatus.FAILED,
        )
        .order_by(Transaction.id.desc())
        .first()
    )
    return payment


def _is_within(first: datetime, last: datetime | None = None) -> Any:
    """The condition of being made within ten minutes of a moment, or of the time from a first one to a last one."""
    low, high = new_id_floor(first - _DOUBLED_WITHIN), new_id_floor((last or first) + _DOUBLED_WITHIN)
    return (Transaction.id >= low) & (Transaction.id < high)


def _may_double(row: Transaction) -> bool:
    return (
        row.phone_number is not None and row.status != TransactionStatus.FAILED and row.type != TransactionType.REFUND
    )


def _is_double(row: Transaction, other: Transaction) -> bool:
    is_same = all(getattr(row, name) == getattr(other, name) for name in _SAME)
    return other.id != row.id and is_same and abs(row.created_at - other.created_at) <= _DOUBLED_WITHIN
