"""The rule of reviews: each that was closed has the decision or the outcome that closed it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ussd_server.database.ids import new_id_floor
from ussd_server.models.clients import AuditEvent
from ussd_server.models.transactions import StatusChange, Transaction
from ussd_server.services.settlement.outcomes import REVIEW_RETRACTED

UNDECIDED = "has a review that was closed without a decision or an outcome"

_DECISIONS = ("transaction.reviewed", "transaction.settled")


def review_faults(low: str, high: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the broken rule of every transaction within (low, high] whose review nothing closed.

    A provider that denies a payment again closes a review of it, and leaves nothing else.
    """
    closed = Transaction.select().where(
        (Transaction.id > low) & (Transaction.id <= high) & Transaction.review_closed_at.is_null(False)
    )
    for row in closed.order_by(Transaction.id):
        is_denied = row.status == "failed" and row.review_reason == REVIEW_RETRACTED
        if row.review_opened_at is None or not (is_denied or _has_outcome(row) or _has_decision(row)):
            yield row.id, UNDECIDED


def _has_outcome(row: Transaction) -> bool:
    steps = StatusChange.select(StatusChange.sequence).where(
        StatusChange.transaction_id == row.id, StatusChange.created_at == row.review_closed_at
    )
    return bool(steps.exists())


def _has_decision(row: Transaction) -> bool:
    # The ids of audit events begin with their milliseconds, so the newest of a client are found by its index.
    first, end = (new_id_floor(row.review_closed_at + timedelta(milliseconds=ms)) for ms in (0, 1))
    decisions = AuditEvent.select(AuditEvent.id).where(
        AuditEvent.client_id == row.client_id, AuditEvent.id >= first, AuditEvent.id < end,
        AuditEvent.object_id == row.id, AuditEvent.action.in_(_DECISIONS),
    )  # fmt: skip
    return row.review_note is not None and bool(decisions.exists())
