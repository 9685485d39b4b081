"""Payments whose money counts nowhere any more: another one has it, operators released it, or it never moved."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import (
    AMOUNT,
    BANK_ACCOUNT,
    DEPOSITS_ACCOUNT,
    FEE,
    FEES_ACCOUNT,
    LACKING,
    PROVIDER_ACCOUNT,
    SHORTFALL_ACCOUNT,
    Leg,
    lock_accounts,
    write_entry,
)
from ussd_server.services.gates.messages import UseKind
from ussd_server.services.gates.uses import use
from ussd_server.services.transactions.history import append_change
from ussd_server.services.transactions.messages import (
    ChangeDetail,
    Effect,
    Origin,
    Source,
    TransactionStatus,
    TransactionType,
)
from ussd_server.services.transactions.refunds import left_of

RELEASED = "Operators released it: {}"
"""Begins the reason why a released movement is held."""

IS_GIVEN_BACK = "(paid.released_at IS NOT NULL)"
"""`is_given_back` in SQL, of a transaction called `paid`."""


def is_given_back(by: datetime | None = None) -> Any:
    """The condition on `Transaction` that its money counts nowhere; `by`: at that moment."""
    released_at: Any = Transaction.released_at
    return released_at.is_null(False) & (released_at <= by) if by is not None else released_at.is_null(False)


def counts_elsewhere() -> Any:
    """The condition on `Transaction` that its money counts nowhere, or as that of the one in `same_money_as`."""
    return is_given_back() | (
        Transaction.same_money_as.is_null(False) & (Transaction.status == TransactionStatus.FAILED)
    )


def can_be_given_back(payers: Transaction, row: Transaction) -> bool:
    """Whether a payment is a payer's, of the same client and amount, whole, and its account can give it back."""
    if payers.origin != Origin.PAYER or row.type != TransactionType.COLLECTION:
        return False
    if payers.client_id != row.client_id or payers.amount_cents != row.amount_cents:
        return False
    payers = lock_row(Transaction, payers.id)
    if payers.status != TransactionStatus.SUCCEEDED or left_of(payers) != payers.amount_cents:
        return False
    names = {payers.account, row.account, FEES_ACCOUNT, PROVIDER_ACCOUNT.format(row.provider_account)}
    cents = lock_accounts(row.client_id, names)
    for account, moved in (
        (row.account, row.amount_cents - row.fee_cents),
        (payers.account, payers.fee_cents - payers.amount_cents),
        (FEES_ACCOUNT, row.fee_cents - payers.fee_cents),
    ):
        cents[account] = cents.get(account, 0) + moved
    return all(cents[name] >= 0 for name in (payers.account, FEES_ACCOUNT))


def give_back(payers: Transaction, counted: Transaction, source: Source, now: datetime) -> None:
    """Reverse a payer's payment, because `counted` has its money and is saved. Call within the same unit of work."""
    payers.same_money_as = counted.id
    take_back(payers, source, now, f"It is the same money as transaction {counted.id}")
    movement = for_update(Movement.select().where(Movement.transaction_id == payers.id)).get()
    use(movement, UseKind.RELEASE, now, payers.id)
    use(movement, UseKind.PAYMENT, now, counted.id)


def take_back(row: Transaction, source: Source, now: datetime, note: str, lacking: int = 0) -> None:
    """Reverse a locked payment or correction whose money counts nowhere from now on. Call within a unit of work.

    `lacking` is what its account lacks of it, which becomes the client's shortfall.
    """
    debited, credited = (row.account, outside_of(row)) if is_to_us(row) else (outside_of(row), row.account)
    legs = [Leg("move", AMOUNT, debited, credited, row.amount_cents)]
    if lacking:
        legs.insert(0, Leg("move", LACKING, SHORTFALL_ACCOUNT, row.account, lacking))
    if row.fee_cents:
        # Return the fee first: the account may have no more than the amount less the fee.
        legs.insert(0, Leg("move", FEE, FEES_ACCOUNT, row.account, row.fee_cents))
    write_entry(row.client_id, row.id, legs, now)
    was_reversed = row.status == TransactionStatus.REVERSED
    row.status, row.released_at, row.updated_at = TransactionStatus.REVERSED, now, now
    row.save()
    if not was_reversed:
        append_change(row, source, now, ChangeDetail(note=note))
    if row.origin == Origin.PAYER:
        _free_code(row)


def _free_code(row: Transaction) -> None:
    """Let a code for one payment, which was none, take another one; not if it has another one by now."""
    code = PaymentCode.get_or_none(PaymentCode.code == (row.metadata or {}).get("payment_code"), PaymentCode.single_use)
    if code is None or code.used_at is None:
        return
    others = Transaction.select().where(
        Transaction.client_id == row.client_id,
        Transaction.created_at >= code.created_at,
        Transaction.id != row.id,
        Transaction.origin == Origin.PAYER,
        Transaction.status == TransactionStatus.SUCCEEDED,
        Transaction.metadata.cast("text").contains(f'"payment_code":"{code.code}"'),
    )
    if not others.exists():
        PaymentCode.update(used_at=None).where(PaymentCode.id == code.id).execute()


def is_to_us(row: Transaction) -> bool:
    """Whether a payment, a deposit or a correction brings money to a client's account."""
    return row.type in (TransactionType.COLLECTION, TransactionType.DEPOSIT) or row.effect == Effect.CREDIT


def outside_of(row: Transaction) -> str:
    """The account outside from or to which a payment, a deposit or a correction moves money."""
    if row.type == TransactionType.DEPOSIT:
        return DEPOSITS_ACCOUNT
    return BANK_ACCOUNT if row.provider is None else PROVIDER_ACCOUNT.format(row.provider_account)
