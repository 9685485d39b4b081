"""Fees: what a client pays for a transaction."""

from __future__ import annotations

from peewee import IntegrityError

from ussd_server.messages.fees import Fee
from ussd_server.messages.transactions import TransactionType
from ussd_server.models import transactions as tables
from ussd_server.models.base import unit_of_work
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.status import Code, ServiceError

_MOST_CENTS = 99_999_999
_WHOLE_BASIS_POINTS = 10_000


def fee_cents(client_id: str, transaction_type: str, amount_cents: int) -> int:
    """The fee of a client for a type and amount: the fixed part plus the share, zero where nothing was agreed.

    A share is rounded to whole cents, halves up. A fee is never more than the amount, so that what comes in always pays
    for its own fee.
    """
    agreed = tables.Fee.get_or_none(tables.Fee.client_id == client_id, tables.Fee.type == transaction_type)
    if agreed is None:
        return 0
    share_cents = (amount_cents * agreed.share_basis_points + _WHOLE_BASIS_POINTS // 2) // _WHOLE_BASIS_POINTS
    return min(agreed.fixed_cents + share_cents, amount_cents)  # type: ignore[no-any-return]


def set_fee(fee: Fee, call: CallContext) -> Fee:
    """Agree a fee for transactions recorded from now on; zeros end it. NOT_FOUND for an unknown client.

    INVALID_REQUEST for a deposit, which is free, and for parts out of their bounds.
    """
    call.require_operator()
    if fee.type is TransactionType.DEPOSIT:
        raise ServiceError(Code.INVALID_REQUEST, "type: A deposit is free.")
    if not 0 <= fee.fixed_cents <= _MOST_CENTS:
        raise ServiceError(Code.INVALID_REQUEST, "fixed: Must be 0 or more and less than 1000000 shillings.")
    if not 0 <= fee.share_basis_points <= _WHOLE_BASIS_POINTS:
        raise ServiceError(Code.INVALID_REQUEST, "share_basis_points: Must be 0 to 10000.")
    parts = {"fixed_cents": fee.fixed_cents, "share_basis_points": fee.share_basis_points}
    try:
        with unit_of_work():
            tables.Fee.insert(client_id=fee.client_id, type=fee.type, **parts).on_conflict(
                conflict_target=[tables.Fee.client_id, tables.Fee.type], update=parts
            ).execute()
    except IntegrityError:
        raise ServiceError(Code.NOT_FOUND, "Client not found") from None
    return fee


def list_fees(call: CallContext) -> tuple[Fee, ...]:
    """Every fee that was agreed, by client and type."""
    call.require_operator()
    rows = tables.Fee.select().order_by(tables.Fee.client_id, tables.Fee.type)
    return tuple(Fee(row.client_id, TransactionType(row.type), row.fixed_cents, row.share_basis_points) for row in rows)
