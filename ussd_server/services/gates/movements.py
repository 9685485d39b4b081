"""The gate for money that moved outside: its movement is found or made here, in the transaction that books it.

Locks are taken in one order: our payment, the amount (`lock_amount`), receipts in the order of their letters,
movements, the payer's payment that gives way, accounts.

What is told of a payment of ours that succeeded (`use_for`), and what is told otherwise (`find_or_make`), by the use
that the money has:

| its receipt is           | told of our payment                                | told otherwise         |
|--------------------------|----------------------------------------------------|------------------------|
| unknown                  | it counts, and has the receipt                     | a new movement         |
| of a held movement       | it uses the movement; of another amount, it counts | that movement          |
|                          | beside it, and operators end the movement          |                        |
| of another one of ours   | a review                                           | that payment           |
| of a payer's payment     | the payer's gives way if it is the same client's,  | that payment           |
|                          | whole, and its account has the money; else review  |                        |
| of what is returned, own | a review                                           | that movement          |
| not told, and money like | a review beside a payer's payment                  | (`payments_like` says) |
| it is known              |                                                    |                        |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.movements import Movement, MovementReceipt, is_held
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.given_back import can_be_given_back
from ussd_server.services.gates.likeness import WITH_TWO_RECEIPTS, payers_payment_like
from ussd_server.services.gates.messages import Told, UseKind, WayIn
from ussd_server.services.gates.own_movements import make_own, own_of, take_movement
from ussd_server.services.gates.receipts import (
    DIRECTIONS,
    NOBODY,
    Money,
    account_of,
    direction_of,
    give_receipt,
    insert_receipt,
    lock_amount,
    lock_in_order,
    lock_receipt,
    money_of,
    money_of_receipt,
    receipts_of,
)
from ussd_server.services.gates.uses import merge, new_movement, note_told, note_use, use, write_use
from ussd_server.services.transactions.create import Within
from ussd_server.services.transactions.messages import TransactionStatus, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import (
    LONGEST_RECEIPT,
    canonical_receipt,
    comparable_receipt,
    written_amount,
)

log = Logger(__name__)
_SAME_RECEIPT = "its receipt is that of transaction {}"
_MAY_BE_SAME = "it may be the money of transaction {}, of the same amount"
_OTHER_USE = "operators used the money of its receipt otherwise"
# Reviews keep these sentences. Operators who settle a transaction after one of them have said that it is other money.
_CONTESTS = tuple(reason.partition("{}")[0] for reason in (_SAME_RECEIPT, _MAY_BE_SAME, _OTHER_USE))


class UseOutcome(Enum):
    """What a payment that succeeded does: count, replace a payer's payment of the same money, or await a review."""

    COUNTS = "counts"
    REPLACES = "replaces"
    CONTESTS = "contests"


@dataclass(frozen=True, slots=True)
class UseResult:
    """What the gate decided about a payment; `other` has its money, `reason` is why operators must review it."""

    decision: UseOutcome
    other: Transaction | None = None
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether the payment is credited."""
        return self.decision is not UseOutcome.CONTESTS


_COUNTS = UseResult(UseOutcome.COUNTS)


def find_or_make(told: Told, now: datetime, **columns: Any) -> Money:
    """Find the money that a way tells of, by its receipt, or make its movement, with these columns.

    What only an undone import told gives way where it has another amount. Call inside a unit of work, before anything
    of the money is locked. The caller saves the movement.
    """
    lock_amount(told.account, told.direction, told.amount_cents)
    receipt = lock_receipt(told.account, told.direction, told.receipt) if told.receipt else None
    money = money_of_receipt(receipt) if receipt else NOBODY
    is_untold = money.movement is not None and not money.movement.told
    if money is NOBODY or (is_untold and money.movement.amount_cents != told.amount_cents):  # type: ignore[union-attr]
        movement = new_movement(told, now, **columns)
        movement.save(force_insert=True)
        if money.movement is not None:
            merge(money.movement, movement, now)
        elif receipt is not None:
            give_receipt(receipt, movement_id=movement.id)
        money = Money(None, movement, is_new=True)
    if money.movement is not None:
        note_told(money.movement, told.way, now)
    return money


def use_for(row: Transaction, way: WayIn, now: datetime) -> UseResult:
    """Give a payment of ours that succeeded its receipts and its movement, and decide whether it counts.

    Call inside a unit of work with the row locked, before any other lock.
    """
    direction = DIRECTIONS.get(TransactionType(row.type))
    if direction is None:
        return _COUNTS
    account, receipts = account_of(row), receipts_of(row)
    if way is WayIn.REVIEW and has_contest(row):
        make_own(row, WayIn.REVIEW, now, now)
        return _COUNTS
    if len(receipts) < (2 if row.provider in WITH_TWO_RECEIPTS else 1):
        lock_amount(account, direction, row.amount_cents)
        # Once contested, a payment stays so until operators decide, whatever happens to the other payment.
        other = find_row(Transaction, row.contested_id) if row.contested_id else payers_payment_like(row, now)
        is_proven = other is not None and any(money_of(account, direction, each).used_by for each in receipts)
        if not receipts or (other is not None and not is_proven):
            return _decide(row, other, way, is_proven=False)
    if len(receipts) == 1 and insert_receipt(account, direction, receipts[0], row.id):
        return _COUNTS
    return _use_all(row, [lock_receipt(account, direction, each) for each in receipts], way, now)


def _use_all(row: Transaction, receipts: Sequence[MovementReceipt], way: WayIn, now: datetime) -> UseResult:
    """Use the movements of the receipts of a payment, unless other money has one of them."""
    result, movements = _COUNTS, []
    lock_in_order(receipt.movement_id for receipt in receipts)
    for receipt in receipts:
        money = money_of_receipt(receipt)
        if money.movement is not None:
            movements.append(money.movement)
        if money.used_by is not None:
            decided = _decide(row, find_row(Transaction, money.used_by), way)
            if result.other and decided.other and result.other.id != decided.other.id:
                return _contested(row, decided.other, _SAME_RECEIPT.format(decided.other.id), way)
            result = decided if decided.other else result
        elif money.movement is not None and money.movement.use_kind is not None:
            result = _contested(row, None, _OTHER_USE, way)
        if not result.counts:
            return result
    alike = [each for each in movements if each.amount_cents == row.amount_cents]
    for other in movements:
        if other not in alike:
            other.held_because = f"Transaction {row.id} has its receipt, and another amount"
            other.waits_for, other.beside = None, [{"transaction_id": row.id}]
            other.save()
    own = alike[0] if alike else None
    for other in alike[1:]:
        if other.id != own.id:  # type: ignore[union-attr]
            merge(other, own, now)  # type: ignore[arg-type]
    if own is not None and own.use_kind is None:
        note_told(own, way, now)
        use(own, UseKind.PAYMENT, now, row.id)
    for receipt in receipts:
        if receipt.movement_id is None and receipt.transaction_id is None:
            give_receipt(receipt, **({"transaction_id": row.id} if own is None else {"movement_id": own.id}))
    return result


def booking(
    movement: Movement,
    within: Within,
    now: datetime,
    decided_by: str | None = None,
    kind: UseKind = UseKind.PAYMENT,
    reason: str | None = None,
) -> Within:
    """Extend `within`, the unit of work of a new payer's payment or correction, so that it uses a locked movement.

    `decided_by` are the operators who said so, None for a notice.
    """
    if decided_by is not None and kind is UseKind.PAYMENT:
        note_told(movement, WayIn.ASSIGNMENT, now)

    @contextmanager
    def within_use(row: Transaction) -> Iterator[None]:
        with unit_of_work():
            # First, because the database asks for its movement.
            write_use(movement, kind, now, row.id, decided_by, reason)
            with within(row):
                yield
        note_use(movement, kind, row.id)

    return within_use


def recovering(within: Within) -> Within:
    """Extend `within`, the unit of work of a payment that a provider has and the database lost, as `booking` does.

    It raises INVALID_REQUEST if the money of its receipt has a use.
    """

    @contextmanager
    def within_use(row: Transaction) -> Iterator[None]:
        with unit_of_work():
            (canonical,) = receipts_of(row) or ("",)
            receipt = lock_receipt(account_of(row), direction_of(row), canonical) if canonical else None
            money = money_of_receipt(receipt) if receipt else NOBODY
            if money.used_by not in (None, row.refund_of) and not _is_refund_beside(row, money.used_by):
                raise ServiceError(Code.INVALID_REQUEST, f"The receipt is that of transaction {money.used_by}")
            if money.movement is not None and money.movement.use_kind not in (None, UseKind.PAYMENT):
                raise ServiceError(Code.INVALID_REQUEST, "Operators used the money of this receipt otherwise")
            with within(row):
                yield
            if money.movement is not None and money.movement.amount_cents == row.amount_cents:
                note_told(money.movement, WayIn.RECOVERY, row.created_at)
                use(money.movement, UseKind.PAYMENT, row.created_at, row.id)
            elif receipt is not None and money is NOBODY:
                give_receipt(receipt, transaction_id=row.id)

    return within_use


def learn_receipt(row: Transaction, written: str, way: WayIn, now: datetime) -> str | None:
    """Give a receipt to a locked payment that succeeded without it; return why it must be reviewed instead."""
    receipt, own = lock_receipt(account_of(row), direction_of(row), written), own_of(row)
    lock_in_order([receipt.movement_id, own.id if own else None])
    money = money_of_receipt(receipt)
    if money.used_by not in (None, row.id):
        return _SAME_RECEIPT.format(money.used_by)
    if money.movement is not None and money.movement.use_kind not in (None, UseKind.PAYMENT):
        return _OTHER_USE
    take_movement(row, money.movement, written, way, now)
    return None


def say_receipt(row: Transaction, written: str) -> None:
    """Give the receipt that operators name to a locked payment that they settle as succeeded; the caller saves it.

    INVALID_REQUEST for a payment without a provider, for another receipt than the provider named, and for one of other
    money: of another payment, of a movement with a use, or of a held one with another amount or number.
    """
    written = written.strip()
    if row.type not in DIRECTIONS or row.provider is None:
        raise ServiceError(Code.INVALID_REQUEST, "Only a payment at a provider has a receipt")
    if not (canonical_receipt(written) and len(written) <= LONGEST_RECEIPT and written.isprintable()):
        raise ServiceError(Code.INVALID_REQUEST, f"A receipt has 1 to {LONGEST_RECEIPT} characters that can be printed")
    known = set(map(comparable_receipt, receipts_of(row)))
    if row.provider_transaction_id is not None and comparable_receipt(written) not in known:
        raise ServiceError(Code.INVALID_REQUEST, f"The provider has named the receipt {row.provider_transaction_id}")
    money = money_of(account_of(row), direction_of(row), written)
    if money.used_by not in (None, row.id):
        raise ServiceError(Code.INVALID_REQUEST, f"The receipt is that of transaction {money.used_by}")
    if (movement := money.movement) is not None:
        fault = ""
        if movement.use_kind is not None and movement.transaction_id is None:
            fault = "is used otherwise"
        elif movement.amount_cents != row.amount_cents:
            fault = f"is of {written_amount(movement.amount_cents)}"
        elif None not in (movement.phone_number, row.phone_number) and movement.phone_number != row.phone_number:
            fault = "is of another number"
        if fault:
            raise ServiceError(Code.INVALID_REQUEST, f"The receipt is that of movement {movement.id}, which {fault}")
    row.provider_transaction_id = row.provider_transaction_id or written


def decide_again(transaction_id: str) -> None:
    """Let what is held beside a payment be decided anew, because the payment has its receipt by now."""
    Movement.update(waits_for=transaction_id).where(
        is_held(), Movement.beside.cast("text").contains(transaction_id)
    ).execute()


def mark_as_same_money(row: Transaction, now: datetime) -> None:
    """Mark a contested transaction and the other one as the same money, as operators decided, if one client has both.

    The caller saves the row.
    """
    if row.contested_id is None or not has_contest(row):
        return
    other = lock_row(Transaction, row.contested_id)
    if other.client_id == row.client_id:
        row.same_money_as = other.id
        if other.released_at is None:
            other.change(same_money_as=row.id, updated_at=now)


def is_corrected(row: Transaction) -> bool:
    """Whether operators booked what moved of a payment, which ended as failed, as a correction.

    What is told of it under a receipt that the correction's money has not is other money.
    """
    booked = Movement.select(Movement.id).join(Transaction, on=(Transaction.id == Movement.transaction_id))
    ids = [each.id for each in booked.where(Transaction.corrects == row.id)] if row.completed_at else []
    if row.status != TransactionStatus.FAILED or not ids:
        return False
    known = {each.receipt for each in MovementReceipt.select().where(MovementReceipt.movement_id.in_(ids))}
    told = set(map(comparable_receipt, receipts_of(row)))
    return not told or not known or bool(told & known)


def has_contest(row: Transaction) -> bool:
    """Whether a review is open because another payment may have the money of a transaction."""
    return row.is_in_review and str(row.review_reason).startswith(_CONTESTS)


def _decide(row: Transaction, other: Transaction | None, way: WayIn, *, is_proven: bool = True) -> UseResult:
    """Decide about a payment whose money another one has, or may have if a receipt does not prove it."""
    if other is None or other.id == row.id or _is_refund_beside(row, other.id):
        return _COUNTS
    if row.status == TransactionStatus.FAILED and (
        other.corrects == row.id or (row.contested_id == other.id and not has_contest(row))
    ):
        # Operators have found both to be the same money.
        return UseResult(UseOutcome.CONTESTS, other)
    if is_proven and can_be_given_back(other, row):
        return UseResult(UseOutcome.REPLACES, lock_row(Transaction, other.id))
    reason = _SAME_RECEIPT if is_proven else _MAY_BE_SAME
    return _contested(row, other, reason.format(other.id), way)


def _is_refund_beside(row: Transaction, other_id: str | None) -> bool:
    """Whether both are refunds of one collection: Airtel gives them its receipt."""
    if row.refund_of is None or other_id is None:
        return False
    other = find_row(Transaction, other_id)
    return bool(other.refund_of == row.refund_of and other.type == row.type)


def _contested(row: Transaction, other: Transaction | None, reason: str, way: WayIn) -> UseResult:
    log.warning("a receipt is contested", way=way.value, transaction_id=row.id, other_id=other.id if other else None)
    return UseResult(UseOutcome.CONTESTS, other, reason)
