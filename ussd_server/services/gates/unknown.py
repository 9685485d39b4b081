"""Money that nothing here knows, as a statement tells of it: many movements are held at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.likeness import has_receipt_of, is_of_number, is_silent_success
from ussd_server.services.gates.messages import Told
from ussd_server.services.gates.receipts import give_receipt, lock_told, receipts_of
from ussd_server.services.gates.uses import new_movement, note_told
from ussd_server.values import comparable_receipt


def hold_unknown(account: str, told: Sequence[Told], held_because: str, now: datetime) -> list[Movement | None]:
    """Hold what no receipt and no payment of ours may know, of what was told at one account; None for the rest.

    The rest is for `find_or_make` and `hold`, which would make the same of all, one at a time. Call in a unit of work,
    before anything of the money is locked.
    """
    receipts = lock_told(account, told)
    keys = [(each.direction, comparable_receipt(each.receipt)) for each in told]
    times, may_be_ours = Counter(keys), _payments_of(account, told)
    movements: list[Movement | None] = []
    for key, each in zip(keys, told, strict=True):
        row = receipts.get(key)
        is_known = row is not None and (row.transaction_id or row.movement_id or times[key] > 1)
        movement = None
        if not is_known and not may_be_ours(each):
            movement = new_movement(each, now, held_because=held_because)
            note_told(movement, each.way, now)
        movements.append(movement)
    Movement.bulk_create([each for each in movements if each is not None])
    for key, movement in zip(keys, movements, strict=True):
        if movement is not None and key in receipts:
            give_receipt(receipts[key], movement_id=movement.id)
    return movements


def _payments_of(account: str, told: Sequence[Told]) -> Callable[[Told], bool]:
    """Whether one of what was told may be a payment of ours: all that `payments_like` and `named_by` find, and more."""
    amounts = {each.amount_cents for each in told}
    numbers = {each.phone_number for each in told if each.phone_number is not None}
    written = {each.receipt for each in told if each.receipt}
    has_receipt = has_receipt_of(written | set(map(comparable_receipt, written)))
    named = Transaction.select().where(has_receipt, Transaction.provider_account == account)
    forms = {comparable_receipt(receipt) for row in named for receipt in receipts_of(row)}
    by_number = Transaction.select(Transaction.phone_number, Transaction.amount_cents)
    payments = set(by_number.where(is_of_number(account, numbers, amounts)).distinct().tuples())
    silent = Transaction.select(Transaction.amount_cents).where(is_silent_success(account, amounts))
    of_any_number = {row.amount_cents for row in silent.distinct()}

    def may_be_ours(each: Told) -> bool:
        return (
            each.amount_cents in of_any_number
            or (each.phone_number, each.amount_cents) in payments
            or comparable_receipt(each.receipt) in forms
        )

    return may_be_ours
