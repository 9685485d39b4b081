"""Money that may be the same, where no receipt says so: of one amount and number, at about one time."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from peewee import SQL, fn

from ussd_server.models.clients import Client
from ussd_server.models.movements import Movement, MovementReceipt
from ussd_server.models.transactions import Transaction
from ussd_server.providers.registry import PACKAGES
from ussd_server.services.gates.receipts import RECEIPT_COLUMNS, direction_of, receipts_of, types_of
from ussd_server.services.transactions.messages import SUCCESSFUL, UNFINISHED, Origin
from ussd_server.values import comparable_receipt

# Providers tell us of money at another moment than it moved, and we learn of a success later than it was.
_NEAR = timedelta(hours=48)
_MOST_BESIDE = 5
# A success has the rows of its receipts. Literally as the indexes `transactions_named`, which SQLite demands.
_NAMED = "upper(replace(replace({}, '-', ''), ' ', ''))"
_DID_NOT_SUCCEED = "{} IS NOT NULL AND status NOT IN ('succeeded', 'reversed')"
# What was given back since has moved, too. Literally as the index `transactions_without_receipt`.
_HAS_SUCCEEDED = SQL("(status IN ('succeeded', 'reversed'))") & Transaction.released_at.is_null()
WITH_TWO_RECEIPTS = {package.name for package in PACKAGES if package.gives_two_receipts}


def payments_like(movement: Movement) -> list[Transaction]:
    """Our payments whose money a movement without a use may be, five at most, the unfinished ones first.

    An unfinished one has its number and amount. One that succeeded without a receipt has its amount and no other
    number, and it may have moved from 48 hours before it was sent until 48 hours after its success was known. Where a
    payment has two receipts, one that succeeded with a single one is such a payment, too, of the same number. A
    movement without a receipt may also be that of a payment which has one, and of a payer's.
    """
    told_at = movement.at
    types = types_of(movement.direction)
    amounts, is_that_way = {movement.amount_cents}, Transaction.type.in_(types)
    has_succeeded = _HAS_SUCCEEDED
    if told_at is not None:
        sent_at = fn.COALESCE(Transaction.asked_at, Transaction.created_at)
        has_succeeded &= (sent_at <= told_at + _NEAR) & (Transaction.completed_at >= told_at - _NEAR)
    used = Movement.select(Movement.transaction_id).where(Movement.transaction_id == Transaction.id)
    is_its_own = has_succeeded & ~fn.EXISTS(used)
    by_number: list[Transaction] = []
    if movement.phone_number is not None:
        may_be = Transaction.status.in_(UNFINISHED)
        if movement.receipt is None:
            may_be |= has_succeeded
        else:
            may_be |= is_its_own & Transaction.provider_receipt.is_null() & Transaction.provider.in_(WITH_TWO_RECEIPTS)
        of_number = is_of_number(movement.account, {movement.phone_number}, amounts)
        rows = Transaction.select().where(of_number, may_be, is_that_way)
        by_number = list(rows.order_by(Transaction.id).limit(_MOST_BESIDE))
    without_receipt = Transaction.select().where(
        is_silent_success(movement.account, amounts),
        is_that_way,
        is_its_own,
        _is_or_lacks(Transaction.phone_number, movement.phone_number),
        Transaction.id.not_in([row.id for row in by_number]),
    )
    by_amount = list(without_receipt.order_by(Transaction.id).limit(_MOST_BESIDE))
    return sorted([*by_number, *by_amount], key=lambda row: row.status not in UNFINISHED)[:_MOST_BESIDE]


def is_of_number(account: str, numbers: Collection[str], amounts: Collection[int]) -> Any:
    """The condition on `Transaction` of all that may be money of one of these numbers and amounts."""
    return (
        # By client, because the index of phone numbers begins with it.
        Transaction.client_id.in_(Client.select(Client.id))
        & Transaction.phone_number.in_(numbers)
        & Transaction.amount_cents.in_(amounts)
        & Transaction.status.in_((*UNFINISHED, *SUCCESSFUL))
        & (Transaction.provider_account == account)
    )


def is_silent_success(account: str, amounts: Collection[int]) -> Any:
    """The condition on `Transaction` of successes without a receipt, which may be money of any number."""
    return (
        (Transaction.provider_account == account)
        & Transaction.amount_cents.in_(amounts)
        & _HAS_SUCCEEDED
        & Transaction.provider_transaction_id.is_null()
    )


def payers_payment_like(row: Transaction, now: datetime) -> Transaction | None:
    """The first payer's payment whose money a success without a receipt may be."""
    sent_at = row.asked_at or row.created_at
    payment: Transaction | None = (
        Transaction.select()
        .join(Movement, on=(Movement.transaction_id == Transaction.id))
        .where(
            Movement.account == row.provider_account,
            Movement.direction == direction_of(row),
            Movement.amount_cents == row.amount_cents,
            _is_or_lacks(Movement.phone_number, row.phone_number),
            Movement.at.is_null() | ((Movement.at >= sent_at - _NEAR) & (Movement.at <= now + _NEAR)),
            Transaction.origin == Origin.PAYER,
            _HAS_SUCCEEDED,
            Transaction.same_money_as.is_null(),
        )
        .order_by(Transaction.id)
        .first()
    )
    return payment


def named_by(movement: Movement) -> Transaction | None:
    """Our payment that its provider named with a receipt of a movement which it does not use; None without.

    One whose receipt is written otherwise is found where it stands beside the movement.
    """
    if movement.receipt is None:
        return None
    receipts = MovementReceipt.select().where(MovementReceipt.movement_id == movement.id)
    written = {movement.receipt, *(form for each in receipts for form in (each.written, each.receipt))}
    beside = [each["transaction_id"] for each in movement.beside if each.get("transaction_id")]
    rows = Transaction.select().where(
        has_receipt_of(written) | Transaction.id.in_(beside),
        Transaction.provider_account == movement.account,
        Transaction.type.in_(types_of(movement.direction)),
        Transaction.origin != Origin.PAYER,
    )
    forms = set(map(comparable_receipt, written))
    named = (row for row in rows.order_by(Transaction.id) if forms & set(map(comparable_receipt, receipts_of(row))))
    return next(named, None)


def has_receipt_of(written: Collection[str]) -> Any:
    """The condition that a provider named a payment with one of these receipts.

    One that did not succeed is found however case, spaces and hyphens of its receipt are written.
    """
    has_it: Any = Transaction.provider_transaction_id.in_(written) | Transaction.provider_receipt.in_(written)
    forms = set(map(comparable_receipt, written))
    for column in RECEIPT_COLUMNS:
        has_it |= SQL(_NAMED.format(column)).in_(forms) & SQL(_DID_NOT_SUCCEED.format(column))
    return has_it


def _is_or_lacks(column: Any, number: str | None) -> Any:
    """The condition that a number is not known to be another one."""
    return column.is_null() | (column == number) if number is not None else True
