"""The ledger: accounts and the transfers between them, moved by triggers; and the banks that clients are settled to."""

from __future__ import annotations

from typing import NamedTuple

from peewee import BigIntegerField, CompositeKey, TextField

from ussd_server.database.tables import CentsField, CompiledQuery, IdField, MomentField, Table, fixed, param


class Account(Table):
    """An account of one client.

    `kind` is `main`, `subscriber` (named by its phone number), `provider` (money that a provider holds for the client),
    `fees`, `deposits` (where an operator's deposits come from), `bank` (what was settled to the client's bank) or
    `shortfall` (money that left although its reservation had been released). Only the last, `provider` and `deposits`
    may go below zero. The sum over all accounts is zero. `held_cents` is the part of `reserved_cents` that payouts hold
    for rows that wait to be sent; the rest are holds of transactions.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    name = TextField()
    kind = TextField()
    currency = TextField()
    balance_cents = CentsField()
    reserved_cents = CentsField()
    held_cents = CentsField()
    created_at = MomentField()

    class Meta:
        table_name = "ledger_accounts"


class Transfer(Table):
    """One row, both legs: `amount_cents` from the debited to the credited account.

    `kind` is `move` (at once), `hold` (reserves on the debited account), `post` (ends a hold and moves) or `void` (ends
    a hold and releases). Never edited, never deleted. `purpose` says what for: `amount`, `fee`,
    or `shortfall` for what an account lacked, lent by the account of that name before.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    transaction_id = IdField()
    kind = TextField()
    purpose = TextField()
    debit_account_id = IdField()
    credit_account_id = IdField()
    amount_cents = CentsField()
    hold_id = IdField(null=True)
    created_at = MomentField()

    class Meta:
        table_name = "ledger_transfers"


class AccountEntry(Table):
    """The place of a movement in the statement of one account, `main` or a subscriber's, and the balance after it.

    The database writes it with the transfer. `posted_us` is when, in microseconds since 1970; within an account it
    grows with every entry, in the order of the commits. Never edited, never deleted.
    """

    account_id = IdField()
    posted_us = BigIntegerField()
    transfer_id = IdField()
    balance_cents = CentsField()

    class Meta:
        table_name = "ledger_entries"
        primary_key = CompositeKey("account_id", "posted_us")


class Holding(NamedTuple):
    """Balance and reservation of an account; zero for one that was never used."""

    name: str
    balance_cents: int
    reserved_cents: int


def read_holding(client_id: str, name: str) -> Holding:
    """Return the present balance and reservation of an account."""
    rows = _HOLDING.tuples(client_id=client_id, name=name)
    return Holding(name, *rows[0]) if rows else Holding(name, 0, 0)


_HOLDING = CompiledQuery(
    lambda: Account.select(Account.balance_cents, Account.reserved_cents).where(
        Account.client_id == param(Account.client_id), Account.name == param(Account.name)
    )
)


class BankAccount(Table):
    """The bank account of a client, and the terms of its settlements.

    `confirmed_at` is null until an operator has confirmed what an owner stated.
    """

    client_id = fixed(IdField(primary_key=True))
    bank = TextField(null=True)
    number = TextField(null=True)
    name = TextField(null=True)
    stated_at = MomentField(null=True)
    confirmed_by = TextField(null=True)
    confirmed_at = MomentField(null=True)
    keep_cents = CentsField(null=True)
    minimum_cents = CentsField(null=True)
