"""The ledger: accounts and the transfers between them. The database moves the balances itself, by triggers."""

from __future__ import annotations

from peewee import TextField

from ussd_server.models.base import CentsField, IdField, MomentField, Table


class Account(Table):
    """An account of one client.

    `kind` is `main`, `subscriber` (named by its phone number), `provider` (the money a company holds for the client),
    `fees`, `deposits` (where an operator's deposits come from) or `shortfall` (money that left although its reservation
    had been released). Only the last, `provider` and `deposits` may go below zero. The sum over all accounts is zero.
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
