"""Our transactions as they are compared with lines of statements, and those that a period must have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.providers.statement_format import LineStatus
from ussd_server.services.gates.given_back import counts_elsewhere
from ussd_server.services.reconciliation.reading.statement_lines import Period
from ussd_server.services.transactions.messages import SUCCESSFUL, UNFINISHED, Effect, Origin, TransactionType
from ussd_server.values import comparable_receipt, new_id_floor

AT_PROVIDERS = (
    TransactionType.COLLECTION,
    TransactionType.DISBURSEMENT,
    TransactionType.REFUND,
    TransactionType.CORRECTION,
)
LONGEST_PAYMENT = timedelta(hours=1)
"""A provider settles a payment within this time, even if we learn of it later."""

_PAGE = 5000
_SHARE_OF_PERIOD = 100


class OurPayment(NamedTuple):
    """The columns of a transaction that are compared."""

    id: str
    type: str
    status: str
    amount_cents: int
    provider_reference: str | None
    sent_reference: str | None
    provider_transaction_id: str | None
    provider_receipt: str | None
    refund_of: str | None
    completed_at: datetime | None
    created_at: datetime
    origin: str
    effect: str | None

    @property
    def name_there(self) -> str | None:
        """Our name for it at the provider, in the form in which it was sent."""
        return self.sent_reference or self.provider_reference

    @property
    def direction(self) -> int:
        """1 for money to us, -1 for money from us."""
        return direction_sign(self.type, self.effect)

    @property
    def signed_cents(self) -> int:
        """The amount, positive for money to us."""
        return self.direction * self.amount_cents

    @property
    def receipts(self) -> set[str]:
        """Its receipts, in the form in which they are compared."""
        return {comparable_receipt(each) for each in (self.provider_transaction_id, self.provider_receipt) if each}

    @property
    def standing(self) -> LineStatus:
        """The status in the words of a statement."""
        if self.status in SUCCESSFUL:
            return LineStatus.SUCCEEDED
        return LineStatus.PENDING if self.status in UNFINISHED else LineStatus.FAILED


COLUMNS = tuple(getattr(Transaction, name) for name in OurPayment._fields)


def direction_sign(kind: str, effect: str | None) -> int:
    """1 for a payment or a correction that brings money to us, -1 for one that takes money from us."""
    return 1 if kind == TransactionType.COLLECTION or effect == Effect.CREDIT else -1


def payments_within(account: str, period: Period) -> Iterator[tuple[OurPayment, bool]]:
    """Transactions that succeeded here and that the statement of a period must have, in pages.

    Each with whether its provider certainly dated it within the period.
    """
    has_moved = (Transaction.provider_account == account) & Transaction.status.in_(SUCCESSFUL) & ~counts_elsewhere()
    requested = Transaction.select(*COLUMNS).where(
        has_moved,
        Transaction.type.in_(AT_PROVIDERS),
        Transaction.origin != Origin.PAYER,
        Transaction.type != TransactionType.CORRECTION,
        Transaction.id < new_id_floor(period.last),
    )
    for ours in _in_pages(requested, period):
        first, last = ours.created_at, min(ours.completed_at or ours.created_at, ours.created_at + LONGEST_PAYMENT)
        is_inside = first >= period.first and last <= period.last
        # One that was under way at an end of the period may be in the neighbouring statement. It must be in this one
        # only if that time is long compared to the period.
        is_long = (last - first) * _SHARE_OF_PERIOD > period.last - period.first
        if last >= period.first and first <= period.last and (is_inside or is_long):
            yield ours, is_inside
    # Payers pay before we learn of it, and it may be booked days later, as a correction is.
    came = (
        Transaction.select(*COLUMNS)
        .join(Movement, on=(Movement.transaction_id == Transaction.id))
        .where(has_moved, Movement.account == account)
        .where((Transaction.origin == Origin.PAYER) | (Transaction.type == TransactionType.CORRECTION))
        .where(Movement.at >= period.first, Movement.at <= period.last, Movement.receipt.is_null(False))
    )
    yield from ((ours, True) for ours in _in_pages(came, period))


def _in_pages(rows: Any, period: Period) -> Iterator[OurPayment]:
    after = new_id_floor(period.first - LONGEST_PAYMENT)
    while True:
        following = rows.where(Transaction.id > after).order_by(Transaction.id).limit(_PAGE)
        page = [OurPayment(*row) for row in following.tuples().iterator()]
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].id
