"""The ledger: accounts and the transfers between them, moved by triggers; and the banks that clients are settled to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from peewee import BigIntegerField, CompositeKey, TextField

from ussd_server.database.tables import CentsField, IdField, MomentField, Table, fixed
from ussd_server.database.unit_of_work import dialect


class Account(Table):
    """An account of one client.

    `kind` is `main`, `subscriber` (named by its phone number), `provider` (money that a provider holds for the client),
    `fees`, `deposits` (where an operator's deposits come from), `bank` (what was settled to the client's bank) or
    `shortfall` (money that left although its reservation had been released). Only the last, `provider` and `deposits`
    may go below zero. The sum over all accounts is zero.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    name = TextField()
    kind = TextField()
    currency = TextField()
    balance_cents = CentsField()
    reserved_cents = CentsField()
    created_at = MomentField()

    class Meta:
        table_name = "ledger_accounts"


class Transfer(Table):
    """One row, both legs: `amount_cents` from the debited to the credited account.

    `kind` is `move` (at once), `hold` (reserves on the debited account), `post` (ends a hold and moves) or `void` (ends
    a hold and releases). Never edited, never deleted. `purpose` says what for: `amount` or `fee`.
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


@dataclass(slots=True)
class Holding:
    """Balance and reservation of an account, filled in by `read_holdings`; zero for one that was never used."""

    client_id: str
    name: str
    balance_cents: int = 0
    reserved_cents: int = 0


def read_holdings(holdings: Sequence[Holding]) -> None:
    """Fill in the present balances and reservations of accounts, in one statement."""
    document = orjson.dumps([[each.client_id, each.name] for each in holdings]).decode()
    for place, balance_cents, reserved_cents in dialect().holdings(document):
        holdings[place].balance_cents, holdings[place].reserved_cents = balance_cents, reserved_cents


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
