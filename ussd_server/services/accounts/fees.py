"""Fees: what a client pays for a transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from peewee import IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models import transactions as tables
from ussd_server.services.accounts.ledger import AnotherFeeError
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import written_amount

Result = TypeVar("Result")

_MOST_CENTS = 99_999_999
_WHOLE_BASIS_POINTS = 10_000
# Entries of the cache: some megabytes.
_MOST_READ = 20_000

_AGREED = CompiledQuery(
    lambda: tables.Fee.select().where(
        tables.Fee.client_id == param(tables.Fee.client_id), tables.Fee.type == param(tables.Fee.type)
    )
)


def fee_cents(agreed: FeeTerms, amount_cents: int) -> int:
    """The fee of an amount: the fixed part plus the share.

    A share is rounded to whole cents, halves up. A fee is never more than the amount, so that a collection can always
    pay its own fee.
    """
    share_cents = (amount_cents * agreed.share_basis_points + _WHOLE_BASIS_POINTS // 2) // _WHOLE_BASIS_POINTS
    return min(agreed.fixed_cents + share_cents, amount_cents)


def agreed_fee(client_id: str, kind: TransactionType) -> FeeTerms:
    """The fee that is agreed with a client for a type of transaction; zeros without an agreement."""
    row = _AGREED.first(tables.Fee, client_id=client_id, type=kind)
    return (
        FeeTerms(client_id, kind, row.fixed_cents, row.share_basis_points) if row else FeeTerms(client_id, kind, 0, 0)
    )


class FeeBook:
    """A cache of fees, as this process read them last.

    The database checks the fee of each new transaction. `with_agreed_fee` writes a refused one again with another fee.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[str, TransactionType], FeeTerms] = {}

    def find(self, client_id: str, kind: TransactionType) -> FeeTerms:
        """The fee that was agreed with a client for a type of transaction when it was read."""
        fee = self._read.get((client_id, kind))
        if fee is None:
            if len(self._read) >= _MOST_READ:
                self._read.clear()
            fee = self._read[client_id, kind] = agreed_fee(client_id, kind)
        return fee

    def forget(self, client_id: str, kind: TransactionType) -> None:
        """Drop this fee, so that its next use reads it again."""
        self._read.pop((client_id, kind), None)

    def with_agreed_fee(self, client_id: str, kind: TransactionType, write: Callable[[], Result]) -> Result:
        """Return what `write` returns; call it again, with the fee read afresh, while it raises AnotherFeeError."""
        try:
            return write()
        except AnotherFeeError:
            self.forget(client_id, kind)
        return self.with_agreed_fee(client_id, kind, write)


def set_fee(fee: FeeTerms, context: RequestContext, now: datetime) -> FeeTerms:
    """Agree a fee for transactions created from now on; zeros end it. The client's audit trail shows it.

    Raises NOT_FOUND for an unknown client, and INVALID_REQUEST for a deposit or a settlement, which are free, and for
    parts out of their bounds.
    """
    context.require_operator()
    if fee.type in (TransactionType.DEPOSIT, TransactionType.SETTLEMENT):
        raise ServiceError(Code.INVALID_REQUEST, f"type: A {fee.type} is free.")
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
            write_audit_event(
                "fee.agreed",
                context,
                now,
                client_id=fee.client_id,
                reason=f"{fee.type}: {written_amount(fee.fixed_cents)} and {fee.share_basis_points / 100:g} percent",
            )
    except IntegrityError:
        raise ServiceError(Code.NOT_FOUND, "Client not found") from None
    return fee


def list_fees(context: RequestContext) -> tuple[FeeTerms, ...]:
    """Every fee that was agreed, by client and type."""
    context.require_operator()
    rows = tables.Fee.select().order_by(tables.Fee.client_id, tables.Fee.type)
    return tuple(
        FeeTerms(row.client_id, TransactionType(row.type), row.fixed_cents, row.share_basis_points) for row in rows
    )
