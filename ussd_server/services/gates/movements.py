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

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from hashlib import blake2b
from typing import Any, NamedTuple

from peewee import fn

from ussd_server.database.tables import CompiledQuery, find_row, lock_row, param
from ussd_server.database.unit_of_work import advisory_lock, for_update, unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.clients import Client
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.movements import IN, OUT, Movement, MovementReceipt, MovementUse, is_held
from ussd_server.models.transactions import Transaction
from ussd_server.providers.registry import PACKAGES
from ussd_server.services.accounts.ledger import (
    AMOUNT,
    FEE,
    FEES_ACCOUNT,
    PROVIDER_ACCOUNT,
    Leg,
    lock_accounts,
    write_entry,
)
from ussd_server.services.gates.messages import UseKind, WayIn
from ussd_server.services.transactions.create import Within
from ussd_server.services.transactions.history import append_change
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    UNFINISHED,
    ChangeDetail,
    Origin,
    Source,
    TransactionStatus,
    TransactionType,
)
from ussd_server.services.transactions.refunds import left_of
from ussd_server.status import Code, ServiceError
from ussd_server.values import comparable_receipt, iso_milliseconds, new_id

log = Logger(__name__)

BANK = "bank"
"""The account of the bank's movements."""

_SAME_RECEIPT = "its receipt is that of transaction {}"
_MAY_BE_SAME = "it may be the money of transaction {}, of the same amount"
_OTHER_USE = "operators used the money of its receipt otherwise"
# Reviews keep these sentences. Operators who settle a transaction after one of them have said that it is other money.
_CONTESTS = tuple(reason.partition("{}")[0] for reason in (_SAME_RECEIPT, _MAY_BE_SAME, _OTHER_USE))

_DIRECTIONS = {
    TransactionType.COLLECTION: IN,
    TransactionType.DISBURSEMENT: OUT,
    TransactionType.REFUND: OUT,
    TransactionType.SETTLEMENT: OUT,
}
# Providers tell us of money at another moment than it moved, and we learn of a success later than it was.
_NEAR = timedelta(hours=48)
_MOST_BESIDE = 5
_WITH_TWO_RECEIPTS = {package.name for package in PACKAGES if package.gives_two_receipts}
_LOCK = 7_256_257 << 32


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


@dataclass(frozen=True, slots=True)
class Told:
    """What a way tells of money that moved, other than of a payment of ours.

    `at` is when it moved, None where the way does not say. `receipt` is as it was written.
    """

    way: WayIn
    account: str
    direction: str
    amount_cents: int
    receipt: str
    phone_number: str | None = None
    at: datetime | None = None


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


_NOBODY = Money(None, None)
_KEY = (
    (MovementReceipt.account == param(MovementReceipt.account))
    & (MovementReceipt.direction == param(MovementReceipt.direction))
    & (MovementReceipt.receipt == param(MovementReceipt.receipt))
)
_LOCKED = CompiledQuery(lambda: for_update(MovementReceipt.select().where(_KEY)))
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

IS_GIVEN_BACK = """(paid.status = 'reversed' AND paid.origin = 'payer' AND EXISTS (
    SELECT 1 FROM transactions AS counted
    WHERE counted.id = paid.same_money_as AND counted.status IN ('succeeded', 'reversed')))"""
"""`is_given_back` in SQL, of a transaction called `paid`."""


def is_given_back(by: datetime | None = None) -> Any:
    """The condition on `Transaction` that it is a payer's payment whose money another one has; `by`: at that moment."""
    counted = Transaction.alias("counted")
    other = counted.select(counted.id).where(counted.id == Transaction.same_money_as, counted.status.in_(SUCCESSFUL))
    if by is not None:
        other = other.where(counted.completed_at <= by)
    return (Transaction.status == TransactionStatus.REVERSED) & (Transaction.origin == Origin.PAYER) & fn.EXISTS(other)


def counts_elsewhere() -> Any:
    """The condition on `Transaction` that its money counts as that of the transaction in `same_money_as`."""
    return Transaction.same_money_as.is_null(False) & (
        is_given_back() | (Transaction.status == TransactionStatus.FAILED)
    )


def find_or_make(told: Told, now: datetime, **columns: Any) -> Money:
    """Find the money that a way tells of, by its receipt, or make its movement, with these columns.

    Call inside a unit of work, before anything of the money is locked.
    """
    lock_amount(told.account, told.direction, told.amount_cents)
    receipt = _lock_receipt(told.account, told.direction, told.receipt)
    money = _money_of(receipt)
    if money is _NOBODY:
        movement = Movement.create(
            id=new_id(now),
            account=told.account,
            direction=told.direction,
            amount_cents=told.amount_cents,
            at=told.at,
            receipt=told.receipt,
            phone_number=told.phone_number,
            told=[],
            beside=[],
            created_at=now,
            updated_at=now,
            **columns,
        )
        _give(receipt, movement_id=movement.id)
        money = Money(None, movement, is_new=True)
    if money.movement is not None:
        note_told(money.movement, told.way, now)
    return money


def note_told(movement: Movement, way: WayIn, now: datetime) -> None:
    """Note that a way told of a locked movement, if it is the first time. The caller saves the movement."""
    if way not in {each["way"] for each in movement.told}:
        movement.told = [*movement.told, {"way": way, "at": iso_milliseconds(now)}]


def money_of(account: str, direction: str, receipt: str) -> Money:
    """What has the money of a receipt, whose row is locked; call inside a unit of work."""
    return _money_of(_lock_receipt(account, direction, receipt))


def lock_receipts(account: str, direction: str, written: Iterable[str]) -> None:
    """Lock several receipts in one order. Call before anything else of them is locked."""
    for receipt in sorted(set(map(comparable_receipt, written)) - {""}):
        _lock_receipt(account, direction, receipt)


def lock_amount(account: str, direction: str, amount_cents: int) -> None:
    """Keep other money of one amount from being told at the same moment: without a receipt it may be the same."""
    digest = blake2b(f"{account} {direction} {amount_cents}".encode(), digest_size=4).digest()
    advisory_lock(_LOCK + int.from_bytes(digest, "big"))


def use(
    movement: Movement,
    kind: UseKind,
    now: datetime,
    transaction_id: str | None = None,
    decided_by: str | None = None,
    reason: str | None = None,
) -> None:
    """Use a locked movement from now on, or release it. The database refuses a second use."""
    _write_use(movement, kind, now, transaction_id, decided_by, reason)
    _note_use(movement, kind, transaction_id)


def _write_use(
    movement: Movement,
    kind: UseKind,
    now: datetime,
    transaction_id: str | None,
    decided_by: str | None = None,
    reason: str | None = None,
) -> None:
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
        decided_by=decided_by,
        reason=reason,
        created_at=now,
    )


def _note_use(movement: Movement, kind: UseKind, transaction_id: str | None) -> None:
    """Take over what the database has written of the last use."""
    is_use = kind is not UseKind.RELEASE
    movement.use_kind, movement.transaction_id = (kind, transaction_id) if is_use else (None, None)


def use_for(row: Transaction, way: WayIn, now: datetime) -> UseResult:
    """Give a payment of ours that succeeded its receipts and its movement, and decide whether it counts.

    Call inside a unit of work with the row locked, before any other lock.
    """
    direction = _DIRECTIONS.get(TransactionType(row.type))
    if direction is None:
        return _COUNTS
    account, receipts = account_of(row), _receipts_of(row)
    if way is WayIn.REVIEW and has_contest(row):
        _make_own(row, now)
        return _COUNTS
    if len(receipts) < (2 if account in _WITH_TWO_RECEIPTS else 1):
        lock_amount(account, direction, row.amount_cents)
        # Once contested, a payment stays so until operators decide, whatever happens to the other payment.
        other = find_row(Transaction, row.contested_id) if row.contested_id else _payers_payment_like(row, now)
        if other is not None or not receipts:
            return _decide(row, other, way, is_proven=False)
    if len(receipts) == 1 and _insert(account, direction, receipts[0], row.id):
        return _COUNTS
    return _use_all(row, [_lock_receipt(account, direction, each) for each in receipts], way, now)


def _use_all(row: Transaction, receipts: Sequence[MovementReceipt], way: WayIn, now: datetime) -> UseResult:
    """Use the movements of the receipts of a payment, unless other money has one of them."""
    result, movements = _COUNTS, []
    for receipt in receipts:
        money = _money_of(receipt)
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
            other.waits_for = None
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
            _give(receipt, **({"transaction_id": row.id} if own is None else {"movement_id": own.id}))
    return result


def merge(other: Movement, first: Movement, now: datetime) -> None:
    """Let a held movement be the same money as the first one: its receipts go there, and it counts nowhere."""
    MovementReceipt.update(movement_id=first.id).where(MovementReceipt.movement_id == other.id).execute()
    other.change(same_as=first.id, waits_for=None, beside=[], updated_at=now)


def booking(movement: Movement, within: Within, now: datetime, decided_by: str | None = None) -> Within:
    """Extend `within`, the unit of work of a new payer's payment, so that the payment uses a locked movement.

    `decided_by` are the operators who assigned it, None for a notice.
    """
    if decided_by is not None:
        note_told(movement, WayIn.ASSIGNMENT, now)

    @contextmanager
    def within_use(row: Transaction) -> Iterator[None]:
        with unit_of_work():
            # First, because the database asks for the movement of each payer's payment.
            _write_use(movement, UseKind.PAYMENT, now, row.id, decided_by)
            with within(row):
                yield
        _note_use(movement, UseKind.PAYMENT, row.id)

    return within_use


def recovering(within: Within) -> Within:
    """Extend `within`, the unit of work of a payment that a provider has and the database lost, as `booking` does.

    It raises INVALID_REQUEST if the money of its receipt has a use.
    """

    @contextmanager
    def within_use(row: Transaction) -> Iterator[None]:
        with unit_of_work():
            (canonical,) = _receipts_of(row) or ("",)
            receipt = _lock_receipt(account_of(row), direction_of(row), canonical) if canonical else None
            money = _money_of(receipt) if receipt else _NOBODY
            if money.used_by not in (None, row.refund_of) and not _is_refund_beside(row, money.used_by):
                raise ServiceError(Code.INVALID_REQUEST, f"The receipt is that of transaction {money.used_by}")
            if money.movement is not None and money.movement.use_kind not in (None, UseKind.PAYMENT):
                raise ServiceError(Code.INVALID_REQUEST, "Operators used the money of this receipt otherwise")
            with within(row):
                yield
            if money.movement is not None and money.movement.amount_cents == row.amount_cents:
                note_told(money.movement, WayIn.RECOVERY, row.created_at)
                use(money.movement, UseKind.PAYMENT, row.created_at, row.id)
            elif receipt is not None and money is _NOBODY:
                _give(receipt, transaction_id=row.id)

    return within_use


def learn_receipt(row: Transaction, written: str, way: WayIn, now: datetime) -> str | None:
    """Give a receipt to a locked payment that succeeded without one; return why it must be reviewed instead."""
    money = money_of(account_of(row), direction_of(row), written)
    if money.used_by not in (None, row.id):
        return _SAME_RECEIPT.format(money.used_by)
    if money.movement is not None and money.movement.use_kind not in (None, UseKind.PAYMENT):
        return _OTHER_USE
    take_movement(row, money.movement, written, way, now)
    return None


def decide_again(transaction_id: str) -> None:
    """Let what is held beside a payment be decided anew, because the payment has its receipt by now."""
    Movement.update(waits_for=transaction_id).where(
        is_held(), Movement.beside.cast("text").contains(transaction_id)
    ).execute()


def take_movement(
    row: Transaction,
    movement: Movement | None,
    written: str,
    way: WayIn,
    now: datetime,
    decided_by: str | None = None,
) -> bool:
    """Give a receipt, and the held movement that has it, to a locked payment that succeeded without one.

    Returns whether it was given.
    """
    if row.provider_transaction_id is not None or row.status not in SUCCESSFUL or row.type not in _DIRECTIONS:
        return False
    if movement is not None and movement.amount_cents != row.amount_cents:
        return False
    row.provider_transaction_id, row.updated_at = written, now
    row.save(only=[Transaction.provider_transaction_id, Transaction.updated_at])
    if movement is None:
        _give(_lock_receipt(account_of(row), direction_of(row), written), transaction_id=row.id)
    elif movement.transaction_id is None:
        note_told(movement, way, now)
        use(movement, UseKind.PAYMENT, now, row.id, decided_by)
    log.info("a payment was given its receipt", way=way.value, transaction_id=row.id)
    return True


def give_back(payers: Transaction, counted: Transaction, source: Source, now: datetime) -> None:
    """Reverse a payer's payment, because `counted` has its money and is saved. Call within the same unit of work."""
    provider = PROVIDER_ACCOUNT.format(payers.provider)
    legs = [Leg("move", AMOUNT, payers.account, provider, payers.amount_cents)]
    if payers.fee_cents:
        # Return the fee first: the account may have no more than the amount less the fee.
        legs.insert(0, Leg("move", FEE, FEES_ACCOUNT, payers.account, payers.fee_cents))
    write_entry(payers.client_id, payers.id, legs, now)
    payers.status, payers.same_money_as, payers.updated_at = TransactionStatus.REVERSED, counted.id, now
    payers.save(only=[Transaction.status, Transaction.same_money_as, Transaction.updated_at])
    append_change(payers, source, now, ChangeDetail(note=f"It is the same money as transaction {counted.id}"))
    movement = for_update(Movement.select().where(Movement.transaction_id == payers.id)).get()
    use(movement, UseKind.RELEASE, now, payers.id)
    use(movement, UseKind.PAYMENT, now, counted.id)
    code = (payers.metadata or {}).get("payment_code")
    # Its one payment was none.
    PaymentCode.update(used_at=None).where(PaymentCode.code == code, PaymentCode.single_use).execute()


def mark_as_same_money(row: Transaction, now: datetime) -> None:
    """Mark a contested transaction and the other one as the same money, as operators decided, if one client has both.

    The caller saves the row.
    """
    if row.contested_id is None or not has_contest(row):
        return
    other = lock_row(Transaction, row.contested_id)
    if other.client_id == row.client_id:
        row.same_money_as, other.same_money_as, other.updated_at = other.id, row.id, now
        other.save(only=[Transaction.same_money_as, Transaction.updated_at])


def payments_like(movement: Movement) -> list[Transaction]:
    """Our payments whose money a movement without a use may be, five at most, the unfinished ones first.

    An unfinished one has its number and amount. One that succeeded without a receipt has its amount and no other
    number, and it may have moved from 48 hours before it was sent until 48 hours after its success was known. Where a
    payment has two receipts, one that succeeded with a single one is such a payment, too, of the same number.
    """
    told_at = movement.at
    types = [kind for kind, direction in _DIRECTIONS.items() if direction == movement.direction]
    same = (Transaction.provider == movement.account) & (Transaction.amount_cents == movement.amount_cents)
    same &= Transaction.type.in_(types)
    has_succeeded = Transaction.status == TransactionStatus.SUCCEEDED
    if told_at is not None:
        sent_at = fn.COALESCE(Transaction.asked_at, Transaction.created_at)
        has_succeeded &= (sent_at <= told_at + _NEAR) & (Transaction.completed_at >= told_at - _NEAR)
    used = Movement.select(Movement.transaction_id).where(Movement.transaction_id == Transaction.id)
    has_succeeded &= ~fn.EXISTS(used)
    by_number: list[Transaction] = []
    if movement.phone_number is not None:
        may_be = Transaction.status.in_(UNFINISHED)
        if movement.account in _WITH_TWO_RECEIPTS:
            may_be |= has_succeeded & Transaction.provider_receipt.is_null()
        rows = Transaction.select().where(
            # By client, because the index of phone numbers begins with it.
            Transaction.client_id.in_(Client.select(Client.id)),
            Transaction.phone_number == movement.phone_number,
            may_be,
            same,
        )
        by_number = list(rows.order_by(Transaction.id).limit(_MOST_BESIDE))
    without_receipt = Transaction.select().where(
        same,
        has_succeeded,
        Transaction.provider_transaction_id.is_null(),
        _is_or_lacks(Transaction.phone_number, movement.phone_number),
        Transaction.id.not_in([row.id for row in by_number]),
    )
    by_amount = list(without_receipt.order_by(Transaction.id).limit(_MOST_BESIDE))
    return sorted([*by_number, *by_amount], key=lambda row: row.status not in UNFINISHED)[:_MOST_BESIDE]


def named_by(movement: Movement) -> Transaction | None:
    """Our payment that its provider named with the receipt of a movement which it does not use; None without."""
    payment: Transaction | None = (
        Transaction.select()
        .where(
            Transaction.provider_transaction_id == movement.receipt,
            Transaction.provider == movement.account,
            Transaction.type.in_([kind for kind, direction in _DIRECTIONS.items() if direction == movement.direction]),
            Transaction.origin != Origin.PAYER,
        )
        .order_by(Transaction.id)
        .first()
    )
    return payment


def has_contest(row: Transaction) -> bool:
    """Whether a review is open because another payment may have the money of a transaction."""
    return row.is_in_review and str(row.review_reason).startswith(_CONTESTS)


def account_of(row: Transaction) -> str:
    """The account at the provider, or at the bank, at which a payment of ours moves money."""
    return BANK if row.type == TransactionType.SETTLEMENT else str(row.provider)


def direction_of(row: Transaction) -> str:
    """The direction in which a payment of ours moves money."""
    return _DIRECTIONS[TransactionType(row.type)]


def _make_own(row: Transaction, now: datetime) -> None:
    """Give a payment, of which operators said that it is other money than what has its receipt, its own movement."""
    movement = Movement.create(
        id=new_id(now),
        account=account_of(row),
        direction=direction_of(row),
        amount_cents=row.amount_cents,
        phone_number=row.phone_number,
        told=[{"way": WayIn.REVIEW, "at": iso_milliseconds(now)}],
        beside=[],
        created_at=now,
        updated_at=now,
    )
    use(movement, UseKind.PAYMENT, now, row.id)


def _decide(row: Transaction, other: Transaction | None, way: WayIn, *, is_proven: bool = True) -> UseResult:
    """Decide about a payment whose money another one has, or may have if a receipt does not prove it."""
    if other is None or other.id == row.id or _is_refund_beside(row, other.id):
        return _COUNTS
    if row.status == TransactionStatus.FAILED and row.contested_id == other.id and not has_contest(row):
        # Operators have found both to be the same money.
        return UseResult(UseOutcome.CONTESTS, other)
    if is_proven and _can_be_given_back(other, row):
        return UseResult(UseOutcome.REPLACES, lock_row(Transaction, other.id))
    reason = _SAME_RECEIPT if is_proven else _MAY_BE_SAME
    return _contested(row, other, reason.format(other.id), way)


def _is_refund_beside(row: Transaction, other_id: str | None) -> bool:
    """Whether both are refunds of one collection: Airtel gives them its receipt."""
    if row.refund_of is None or other_id is None:
        return False
    return bool(find_row(Transaction, other_id).refund_of == row.refund_of)


def _contested(row: Transaction, other: Transaction | None, reason: str, way: WayIn) -> UseResult:
    log.warning("a receipt is contested", way=way.value, transaction_id=row.id, other_id=other.id if other else None)
    return UseResult(UseOutcome.CONTESTS, other, reason)


def _can_be_given_back(payers: Transaction, row: Transaction) -> bool:
    """Whether a payment is a payer's, of the same client and amount, whole, and its account can give it back."""
    if payers.origin != Origin.PAYER or row.type != TransactionType.COLLECTION:
        return False
    if payers.client_id != row.client_id or payers.amount_cents != row.amount_cents:
        return False
    payers = lock_row(Transaction, payers.id)
    if payers.status != TransactionStatus.SUCCEEDED or left_of(payers) != payers.amount_cents:
        return False
    names = {payers.account, row.account, FEES_ACCOUNT, PROVIDER_ACCOUNT.format(row.provider)}
    cents = lock_accounts(row.client_id, names)
    for account, moved in (
        (row.account, row.amount_cents - row.fee_cents),
        (payers.account, payers.fee_cents - payers.amount_cents),
        (FEES_ACCOUNT, row.fee_cents - payers.fee_cents),
    ):
        cents[account] = cents.get(account, 0) + moved
    return all(cents[name] >= 0 for name in (payers.account, FEES_ACCOUNT))


def _payers_payment_like(row: Transaction, now: datetime) -> Transaction | None:
    """The first payer's payment whose money a success without a receipt may be."""
    sent_at = row.asked_at or row.created_at
    payment: Transaction | None = (
        Transaction.select()
        .join(Movement, on=(Movement.transaction_id == Transaction.id))
        .where(
            Movement.account == row.provider,
            Movement.direction == direction_of(row),
            Movement.amount_cents == row.amount_cents,
            _is_or_lacks(Movement.phone_number, row.phone_number),
            Movement.at.is_null() | ((Movement.at >= sent_at - _NEAR) & (Movement.at <= now + _NEAR)),
            Transaction.origin == Origin.PAYER,
            Transaction.status == TransactionStatus.SUCCEEDED,
            Transaction.same_money_as.is_null(),
        )
        .order_by(Transaction.id)
        .first()
    )
    return payment


def _is_or_lacks(column: Any, number: str | None) -> Any:
    """The condition that a number is not known to be another one."""
    return column.is_null() | (column == number) if number is not None else True


def _lock_receipt(account: str, direction: str, written: str) -> MovementReceipt:
    """The row of a receipt, locked until the unit of work ends; made if there is none."""
    receipt = comparable_receipt(written)
    _insert(account, direction, written, None)
    row: MovementReceipt = _LOCKED.first(MovementReceipt, account=account, direction=direction, receipt=receipt)
    return row


def _insert(account: str, direction: str, written: str, transaction_id: str | None) -> int:
    receipt = comparable_receipt(written)
    return _INSERT.run(
        account=account, direction=direction, receipt=receipt, written=written, transaction_id=transaction_id
    )


def _give(receipt: MovementReceipt, **owner: str) -> None:
    """Set the payment or the movement of a locked receipt."""
    MovementReceipt.update(**owner).where(
        MovementReceipt.account == receipt.account,
        MovementReceipt.direction == receipt.direction,
        MovementReceipt.receipt == receipt.receipt,
    ).execute()


def _money_of(receipt: MovementReceipt) -> Money:
    if receipt.transaction_id is not None:
        return Money(find_row(Transaction, receipt.transaction_id), None)
    if receipt.movement_id is not None:
        return Money(None, lock_row(Movement, receipt.movement_id))
    return _NOBODY


def _receipts_of(row: Transaction) -> list[str]:
    """The receipts of a payment of ours as they are written, in the order in which they are locked."""
    written = {comparable_receipt(each): each for each in (row.provider_receipt, row.provider_transaction_id) if each}
    return [written[each] for each in sorted(written)]
