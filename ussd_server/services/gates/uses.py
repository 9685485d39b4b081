"""New movements and their uses: each use is a row, the last one counts, and the database refuses a second payment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from peewee import fn

from ussd_server.models.movements import Movement, MovementReceipt, MovementUse
from ussd_server.services.gates.messages import Told, UseKind, WayIn
from ussd_server.values import comparable_receipt, iso_milliseconds, new_id

_OF_PAYER = ("at", "code", "phone_number", "name")


def new_movement(told: Told, now: datetime, **columns: Any) -> Movement:
    """A movement of what a way tells, with these columns, which is not saved yet."""
    return Movement(
        id=new_id(now),
        account=told.account,
        direction=told.direction,
        amount_cents=told.amount_cents,
        at=told.at,
        receipt=told.receipt or None,
        phone_number=told.phone_number,
        told=[],
        beside=[],
        created_at=now,
        updated_at=now,
        **columns,
    )


def is_told_by(movement: Movement, way: WayIn) -> bool:
    return any(each["way"] == way for each in movement.told)


def note_told(movement: Movement, way: WayIn, now: datetime) -> None:
    """Note that a way told of a locked movement, if it is the first time. The caller saves the movement."""
    if not is_told_by(movement, way):
        movement.told = [*movement.told, {"way": way, "at": iso_milliseconds(now)}]


def use(
    movement: Movement,
    kind: UseKind,
    now: datetime,
    transaction_id: str | None = None,
    decided_by: str | None = None,
    reason: str | None = None,
    other_id: str | None = None,
) -> None:
    """Use a locked movement from now on, or release it. The database refuses a second use.

    `other_id` is a returned movement, locked, of the same account and amount that it gives back.
    """
    write_use(movement, kind, now, transaction_id, decided_by, reason, other_id)
    note_use(movement, kind, transaction_id)
    movement.counterpart = other_id


def write_use(
    movement: Movement,
    kind: UseKind,
    now: datetime,
    transaction_id: str | None,
    decided_by: str | None = None,
    reason: str | None = None,
    other_id: str | None = None,
) -> None:
    """Write a use, or a release, of a locked movement to the database, which sets the movement's own columns by it."""
    movement.held_because = movement.waits_for = None
    movement.beside, movement.updated_at = [], now
    movement.save()
    numbers = MovementUse.select(fn.MAX(MovementUse.number)).where(MovementUse.movement_id == movement.id)
    MovementUse.create(
        id=new_id(now),
        movement_id=movement.id,
        number=(numbers.scalar() or 0) + 1,
        kind=kind,
        transaction_id=transaction_id,
        other_id=other_id,
        decided_by=decided_by,
        reason=reason,
        created_at=now,
    )


def note_use(movement: Movement, kind: UseKind, transaction_id: str | None) -> None:
    """Take over what the database has written of the last use."""
    is_use = kind is not UseKind.RELEASE
    movement.use_kind, movement.transaction_id = (kind, transaction_id) if is_use else (None, None)
    movement.same_as = None


def merge(other: Movement, first: Movement, now: datetime, decided_by: str | None = None) -> None:
    """Let a held movement be the same money as the first one: its receipts go there, and it counts nowhere.

    What was told of it alone is kept with the first one, too.
    """
    MovementReceipt.update(movement_id=first.id).where(MovementReceipt.movement_id == other.id).execute()
    if other.told:
        news = {name: getattr(other, name) for name in _OF_PAYER if getattr(first, name) is None}
        first.change(updated_at=now, **news)
    write_use(other, UseKind.SAME, now, None, decided_by, other_id=first.id)
    other.same_as = first.id


def part(movement: Movement) -> None:
    """Give a locked movement that was released from another one the receipts again with which it came there."""
    parts, receipts = [movement], set[str]()
    while parts:
        receipts |= {comparable_receipt(each.receipt) for each in parts if each.receipt is not None}
        parts = list(Movement.select().where(Movement.same_as.in_([each.id for each in parts])))
    MovementReceipt.update(movement_id=movement.id).where(
        MovementReceipt.account == movement.account,
        MovementReceipt.direction == movement.direction,
        MovementReceipt.receipt.in_(receipts),
    ).execute()
