"""The bank accounts to which clients' money is settled."""

from __future__ import annotations

from peewee import TextField

from ussd_server.database.columns import CentsField, IdField, MomentField, Table


class BankAccount(Table):
    """The bank account of a client, and the terms of its settlements.

    `confirmed_at` is null until an operator has confirmed what an owner stated.
    """

    client_id = IdField(primary_key=True)
    bank = TextField(null=True)
    number = TextField(null=True)
    name = TextField(null=True)
    stated_at = MomentField(null=True)
    confirmed_by = TextField(null=True)
    confirmed_at = MomentField(null=True)
    keep_cents = CentsField(null=True)
    minimum_cents = CentsField(null=True)

    class Meta:
        table_name = "bank_accounts"
