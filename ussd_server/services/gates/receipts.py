"""Receipts: each is one row, locked in one order, that leads to the money it names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from ussd_server.database.tables import CompiledQuery, find_row, lock_row, param
from ussd_server.database.unit_of_work import advisory_lock, for_update
from ussd_server.models.movements import IN, OUT, Movement, MovementReceipt
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.messages import Told
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.values import comparable_receipt

BANK = "bank"
"""The account of the bank's movements."""
DIRECTIONS = {
    TransactionType.COLLECTION: IN,
    TransactionType.DISBURSEMENT: OUT,
    TransactionType.REFUND: OUT,
    TransactionType.SETTLEMENT: OUT,
}
RECEIPT_COLUMNS = ("provider_transaction_id", "provider_receipt")
_LOCK = 7_256_257 << 32


class Money(NamedTuple):
    """What has the money of a receipt: a payment of ours that is its own movement, or a movement, which is locked."""

    payment: Transaction | None
    movement: Movement | None
    is_new: bool = False

    @property
    def used_by(self) -> str | None:
        """The transaction that has the money."""
        if self.payment is not None:
            return str(self.payment.id)
        return None if self.movement is None else self.movement.transaction_id


NOBODY = Money(None, None)
_KEY = (
    (MovementReceipt.account == param(MovementReceipt.account))
    & (MovementReceipt.direction == param(MovementReceipt.direction))
    & (MovementReceipt.receipt == param(MovementReceipt.receipt))
)
_LOCKED = CompiledQuery(lambda: for_update(MovementReceipt.select().where(_KEY)))
_GIVE = CompiledQuery(
    lambda: MovementReceipt.update(
        {field: param(field) for field in (MovementReceipt.transaction_id, MovementReceipt.movement_id)}
    ).where(_KEY)
)
_INSERT = CompiledQuery(
    lambda: MovementReceipt.insert(
        {
            field: param(field)
            for field in (
                MovementReceipt.account,
                MovementReceipt.direction,
                MovementReceipt.receipt,
                MovementReceipt.written,
                MovementReceipt.transaction_id,
            )
        }
    ).on_conflict_ignore()
)


def account_of(row: Transaction) -> str:
    """The account at the provider, or at the bank, at which a payment of ours moves money."""
    return BANK if row.type == TransactionType.SETTLEMENT else str(row.provider_account)


def direction_of(row: Transaction) -> str:
    """The direction in which a payment of ours moves money."""
    return DIRECTIONS[TransactionType(row.type)]


def types_of(direction: str) -> list[TransactionType]:
    """The types of our payments that move money in a direction."""
    return [kind for kind, each in DIRECTIONS.items() if each == direction]


def lock_amount(account: str, direction: str, amount_cents: int) -> None:
    """Keep other money of one amount from being told at the same moment: without a receipt it may be the same."""
    lock_amounts([(account, direction, amount_cents)])


def lock_amounts(amounts: Iterable[tuple[str, str, int]]) -> None:
    """Lock several amounts in one order: account, direction and cents of each."""
    for digest in sorted({blake2b(" ".join(map(str, each)).encode(), digest_size=4).digest() for each in amounts}):
        advisory_lock(_LOCK + int.from_bytes(digest, "big"))


def lock_receipts(account: str, direction: str, written: Iterable[str]) -> dict[str, MovementReceipt]:
    """Lock several receipts in one order; return their rows by their forms. Call before anything of them is locked."""
    forms = {comparable_receipt(each): each for each in written}
    return {form: lock_receipt(account, direction, forms[form]) for form in sorted(forms.keys() - {""})}


def lock_told(account: str, told: Sequence[Told]) -> dict[tuple[str, str], MovementReceipt]:
    """Lock the amounts, the receipts and the movements of what was told at one account.

    Returns the receipts by direction and form. Call before anything else of the money is locked.
    """
    lock_amounts((account, each.direction, each.amount_cents) for each in told)
    receipts: dict[tuple[str, str], MovementReceipt] = {}
    for direction in (IN, OUT):
        written = [each.receipt for each in told if each.direction == direction]
        rows = lock_receipts(account, direction, written)
        receipts |= {(direction, form): row for form, row in rows.items()}
    lock_in_order(row.movement_id for row in receipts.values())
    return receipts


def lock_receipt(account: str, direction: str, written: str) -> MovementReceipt:
    """The row of a receipt, locked until the unit of work ends; made if there is none."""
    receipt = comparable_receipt(written)
    insert_receipt(account, direction, written, None)
    row: MovementReceipt = _LOCKED.first(MovementReceipt, account=account, direction=direction, receipt=receipt)
    return row


def insert_receipt(account: str, direction: str, written: str, transaction_id: str | None) -> int:
    """Add the row of a receipt, unless there is one; return how many were added."""
    receipt = comparable_receipt(written)
    return _INSERT.run(
        account=account, direction=direction, receipt=receipt, written=written, transaction_id=transaction_id
    )


def lock_movement(unlocked: Movement) -> Movement:
    """A movement, locked after its receipt until the unit of work ends."""
    (movement,) = lock_movements([unlocked])
    return movement


def lock_movements(unlocked: Iterable[Movement | None]) -> list[Movement]:
    """Movements, locked after their receipts, each in one order; in that of their ids."""
    movements = [each for each in unlocked if each is not None]
    for place in sorted({(each.account, each.direction) for each in movements}):
        here = [each.receipt for each in movements if (each.account, each.direction) == place]
        lock_receipts(*place, filter(None, here))
    return lock_in_order(each.id for each in movements)


def lock_in_order(movement_ids: Iterable[str | None]) -> list[Movement]:
    """Movements, locked in the order of their ids, after all of their receipts."""
    return [lock_row(Movement, each) for each in sorted(set(filter(None, movement_ids)))]


def give_receipt(
    receipt: MovementReceipt, *, transaction_id: str | None = None, movement_id: str | None = None
) -> None:
    """Give a locked receipt to a payment, or to a movement."""
    _GIVE.run(
        account=receipt.account,
        direction=receipt.direction,
        receipt=receipt.receipt,
        transaction_id=transaction_id,
        movement_id=movement_id,
    )


def receipts_of(row: Transaction) -> list[str]:
    """The receipts of a payment of ours as they are written, in the order in which they are locked."""
    written = {comparable_receipt(each): each for each in (row.provider_receipt, row.provider_transaction_id) if each}
    return [written[each] for each in sorted(written)]


def money_of(account: str, direction: str, receipt: str) -> Money:
    """What has the money of a receipt, whose row is locked; call inside a unit of work."""
    return money_of_receipt(lock_receipt(account, direction, receipt))


def money_of_receipt(receipt: MovementReceipt) -> Money:
    if receipt.transaction_id is not None:
        return Money(find_row(Transaction, receipt.transaction_id), None)
    if receipt.movement_id is not None:
        return Money(None, lock_row(Movement, receipt.movement_id))
    return NOBODY
