"""What is compared of our transactions, and which of them a statement must have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ussd_server.models.incoming import IncomingPayment
from ussd_server.models.transactions import Transaction
from ussd_server.providers.statement_format import LineStatus
from ussd_server.services.reconciliation.statement_lines import Period
from ussd_server.services.transactions.messages import SUCCESSFUL, UNFINISHED, Origin, TransactionType
from ussd_server.values import new_id_floor

_PAGE = 5000
_AT_PROVIDERS = (TransactionType.COLLECTION, TransactionType.DISBURSEMENT, TransactionType.REFUND)
# A provider settles a payment within this time, even if we learn of it later.
_LONGEST_PAYMENT = timedelta(hours=1)
_SHARE_OF_PERIOD = 100
COLUMNS = (
    Transaction.id,
    Transaction.type,
    Transaction.status,
    Transaction.amount_cents,
    Transaction.provider_reference,
    Transaction.provider_transaction_id,
    Transaction.refund_of,
    Transaction.completed_at,
    Transaction.created_at,
    Transaction.origin,
)


class OurPayment(NamedTuple):
    """What is compared of a transaction."""

    id: str
    type: str
    status: str
    amount_cents: int
    provider_reference: str | None
    provider_transaction_id: str | None
    refund_of: str | None
    completed_at: datetime | None
    created_at: datetime
    origin: str

    @property
    def direction(self) -> int:
        """1 for money to us, -1 for money from us."""
        return 1 if self.type == TransactionType.COLLECTION else -1

    @property
    def signed_cents(self) -> int:
        """The amount, positive for money to us."""
        return self.direction * self.amount_cents

    @property
    def standing(self) -> LineStatus:
        """The status in the words of a statement."""
        if self.status in SUCCESSFUL:
            return LineStatus.SUCCEEDED
        return LineStatus.PENDING if self.status in UNFINISHED else LineStatus.FAILED


def payments_within(provider: str, period: Period) -> Iterator[OurPayment]:
    """What succeeded here and the statement of a period must have, in pages."""
    has_moved = (Transaction.provider == provider) & Transaction.status.in_(SUCCESSFUL)
    requested = Transaction.select(*COLUMNS).where(
        has_moved,
        Transaction.type.in_(_AT_PROVIDERS),
        Transaction.origin != Origin.PAYER,
        Transaction.id < new_id_floor(period.last),
    )
    for ours in _in_pages(requested, period):
        if _lies_within(ours, period):
            yield ours
    # Payers pay before we learn of it, and it may be booked days later.
    came = (
        Transaction.select(*COLUMNS)
        .join(IncomingPayment, on=(IncomingPayment.transaction_id == Transaction.id))
        .where(has_moved, Transaction.origin == Origin.PAYER, IncomingPayment.provider == provider)
        .where(IncomingPayment.paid_at >= period.first, IncomingPayment.paid_at <= period.last)
    )
    yield from _in_pages(came, period)


def _in_pages(rows: Any, period: Period) -> Iterator[OurPayment]:
    after = new_id_floor(period.first - _LONGEST_PAYMENT)
    while True:
        following = rows.where(Transaction.id > after).order_by(Transaction.id).limit(_PAGE)
        page = [OurPayment(*row) for row in following.tuples().iterator()]
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _lies_within(ours: OurPayment, period: Period) -> bool:
    """Whether the statement must have this transaction.

    The provider dated it between its creation here and its completion. A transaction that was under way at an end of
    the period may be in the neighbouring statement. It counts only if that time is long compared to the period.
    """
    first, last = ours.created_at, min(ours.completed_at or ours.created_at, ours.created_at + _LONGEST_PAYMENT)
    if last < period.first or first > period.last:
        return False
    is_inside = first >= period.first and last <= period.last
    return is_inside or (last - first) * _SHARE_OF_PERIOD > period.last - period.first
