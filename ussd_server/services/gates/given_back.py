"""Payers' payments that are given back, because a payment of ours has their money."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from peewee import fn

from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import (
    AMOUNT,
    FEE,
    FEES_ACCOUNT,
    PROVIDER_ACCOUNT,
    Leg,
    lock_accounts,
    write_entry,
)
from ussd_server.services.gates.messages import UseKind
from ussd_server.services.gates.uses import use
from ussd_server.services.transactions.history import append_change
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    ChangeDetail,
    Origin,
    Source,
    TransactionStatus,
    TransactionType,
)
from ussd_server.services.transactions.refunds import left_of

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


def can_be_given_back(payers: Transaction, row: Transaction) -> bool:
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


def give_back(payers: Transaction, counted: Transaction, source: Source, now: datetime) -> None:
    """Reverse a payer's payment, because `counted` has its money and is saved. Call within the same unit of work."""
    provider = PROVIDER_ACCOUNT.format(payers.provider)
    legs = [Leg("move", AMOUNT, payers.account, provider, payers.amount_cents)]
    if payers.fee_cents:
        # Return the fee first: the account may have no more than the amount less the fee.
        legs.insert(0, Leg("move", FEE, FEES_ACCOUNT, payers.account, payers.fee_cents))
    write_entry(payers.client_id, payers.id, legs, now)
    payers.change(status=TransactionStatus.REVERSED, same_money_as=counted.id, updated_at=now)
    append_change(payers, source, now, ChangeDetail(note=f"It is the same money as transaction {counted.id}"))
    movement = for_update(Movement.select().where(Movement.transaction_id == payers.id)).get()
    use(movement, UseKind.RELEASE, now, payers.id)
    use(movement, UseKind.PAYMENT, now, counted.id)
    code = (payers.metadata or {}).get("payment_code")
    # Its one payment was none.
    PaymentCode.update(used_at=None).where(PaymentCode.code == code, PaymentCode.single_use).execute()
