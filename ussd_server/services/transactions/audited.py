"""Transactions that stand in the audit trail, because a person or operators made them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.transactions import Transaction
from ussd_server.services.audit.trail import write_audit_event


@contextmanager
def audited(
    row: Transaction, action: str, context: RequestContext, reason: str | None, decided_by: str | None = None
) -> Iterator[None]:
    """A unit of work that creates a transaction, and ends with its audit event; that of a refund names the collection.

    `decided_by` are the names of the operators who decided.
    """
    with unit_of_work():
        yield
        audit_payment(row, action, context, row.created_at, reason, decided_by, object_id=row.refund_of)


def audit_payment(
    row: Transaction,
    action: str,
    context: RequestContext,
    now: datetime,
    reason: str | None,
    decided_by: str | None = None,
    object_id: str | None = None,
) -> None:
    """Write an audit event about a transaction, or about `object_id`. Call in the unit of work."""
    write_audit_event(
        action,
        context,
        now,
        client_id=row.client_id,
        object_id=object_id or row.id,
        reason=reason,
        amount_cents=row.amount_cents,
        phone_number=row.phone_number,
        decided_by=decided_by,
    )
