"""Payments of ours that are their own movement, shown as the other movements are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peewee import fn

from ussd_server.models.clients import Client
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import StatusChange, Transaction
from ussd_server.services.gates.given_back import counts_elsewhere
from ussd_server.services.gates.messages import UseKind, WayIn
from ussd_server.services.gates.receipts import BANK, DIRECTIONS, account_of, direction_of, receipts_of
from ussd_server.services.movements.messages import ListMovements, MovementUseView, MovementView, Telling
from ussd_server.services.transactions.messages import SUCCESSFUL, Source, TransactionType
from ussd_server.values import bounds_of_day

_WAYS = {
    Source.SUBMIT: WayIn.ENQUIRY,
    Source.POLL: WayIn.ENQUIRY,
    Source.CALLBACK: WayIn.CALLBACK,
    Source.OPERATOR: WayIn.REVIEW,
}


def own_payments(request: ListMovements) -> Any:
    """Those that a list of movements asks for; they moved when their success was learnt."""
    used = Movement.select(Movement.id).where(Movement.transaction_id == Transaction.id)
    rows = Transaction.select().where(
        Transaction.type.in_(list(DIRECTIONS)),
        Transaction.status.in_(SUCCESSFUL),
        ~counts_elsewhere(),
        ~fn.EXISTS(used),
    )
    if request.account == BANK:
        rows = rows.where(Transaction.type == TransactionType.SETTLEMENT)
    elif request.account is not None:
        rows = rows.where(Transaction.provider_account == request.account)
    if request.day is not None:
        begin, end = bounds_of_day(request.day)
        rows = rows.where(
            # By client, because the index of final payments begins with it.
            Transaction.client_id.in_(Client.select(Client.id)),
            Transaction.completed_at >= begin,
            Transaction.completed_at < end,
        )
    return rows


def views_of_own(rows: Sequence[Transaction]) -> list[MovementView]:
    """Payments of ours as movements: each has the id of its payment, and one use that nobody decided."""
    succeeded = StatusChange.transaction_id.in_([row.id for row in rows]) & StatusChange.status.in_(SUCCESSFUL)
    changes = StatusChange.select().where(succeeded).order_by(StatusChange.sequence.desc())
    sources = {change.transaction_id: Source(change.source) for change in changes}
    return [
        MovementView(
            movement_id=row.id,
            account=account_of(row),
            direction=direction_of(row),
            amount_cents=row.amount_cents,
            at=row.completed_at,
            phone_number=row.phone_number,
            reference=row.provider_reference,
            receipts=tuple(receipts_of(row)),
            told=(Telling(_WAYS[sources[row.id]], row.completed_at),),
            state=UseKind.PAYMENT,
            use=MovementUseView(UseKind.PAYMENT, row.id, None, None, None, None, row.completed_at),
            created_at=row.completed_at,
        )
        for row in rows
    ]
