"""Movements of payments of ours: a payment is its own movement, until its money is told otherwise too."""

from __future__ import annotations

from datetime import datetime

from ussd_server.logs import Logger
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.messages import Told, UseKind, WayIn
from ussd_server.services.gates.receipts import (
    DIRECTIONS,
    account_of,
    direction_of,
    give_receipt,
    lock_in_order,
    lock_receipt,
    money_of_receipt,
    receipts_of,
)
from ussd_server.services.gates.uses import merge, new_movement, note_told, use
from ussd_server.services.transactions.messages import SUCCESSFUL
from ussd_server.values import comparable_receipt

log = Logger(__name__)


def make_own(
    row: Transaction, way: WayIn | None, told_at: datetime, now: datetime, receipt: str | None = None
) -> Movement:
    """Give a locked payment of ours a movement of its own, and its receipts with what is held of them.

    Not what other money has. Operators said that it is other money than what has its receipt, or that it never moved.
    """
    told = Told(
        way or WayIn.ENQUIRY, account_of(row), direction_of(row), row.amount_cents, receipt or "", row.phone_number
    )
    movement = new_movement(told, now)
    if way is not None:
        note_told(movement, way, told_at)
    movement.save(force_insert=True)
    use(movement, UseKind.PAYMENT, now, row.id)
    receipts = [lock_receipt(told.account, told.direction, each) for each in receipts_of(row)]
    lock_in_order(each.movement_id for each in receipts)
    for each in receipts:
        other = money_of_receipt(each).movement
        if other is not None and other.use_kind is None and other.amount_cents == row.amount_cents:
            merge(other, movement, now)
        elif other is None and each.transaction_id in (None, row.id):
            give_receipt(each, movement_id=movement.id)
    return movement


def own_of(row: Transaction) -> Movement | None:
    """The movement that a locked payment uses; None where the payment is its own."""
    movement: Movement | None = Movement.get_or_none(Movement.transaction_id == row.id)
    return movement


def take_movement(
    row: Transaction,
    movement: Movement | None,
    written: str,
    way: WayIn,
    now: datetime,
    decided_by: str | None = None,
) -> bool:
    """Give a receipt, and the held movement that has it, to a locked payment that succeeded, whose own is locked, too.

    `written` is empty for a movement without a receipt. Returns whether it was given: not to a payment that counts
    nowhere, nor other money to any.
    """
    if row.status not in SUCCESSFUL or row.type not in DIRECTIONS:
        return False
    moved = account_of(row), direction_of(row), row.amount_cents
    if row.released_at is not None or (
        movement is not None and (movement.account, movement.direction, movement.amount_cents) != moved
    ):
        return False
    own = own_of(row)
    if own is None and row.provider_transaction_id is not None and movement is not None:
        own = make_own(row, WayIn.ENQUIRY, row.completed_at, now, row.provider_transaction_id)
    if written and comparable_receipt(written) not in map(comparable_receipt, receipts_of(row)):
        column = "provider_transaction_id" if row.provider_transaction_id is None else "provider_receipt"
        if getattr(row, column) is None:
            row.change(updated_at=now, **{column: written})
    if movement is None:
        give_receipt(lock_receipt(account_of(row), direction_of(row), written), transaction_id=row.id)
    elif own is not None and own.id != movement.id:
        merge(movement, own, now, decided_by)
    elif own is None:
        note_told(movement, way, now)
        use(movement, UseKind.PAYMENT, now, row.id, decided_by)
    log.info("a payment was given its receipt", way=way.value, transaction_id=row.id)
    return True
