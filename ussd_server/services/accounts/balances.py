"""Balances of the accounts that a client has here."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from peewee import SQL

from ussd_server.context import RequestContext
from ussd_server.models.clients import Client
from ussd_server.models.ledger import Account, Holding, Transfer, read_holding
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.messages import Balance
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import MAIN_ACCOUNT


class BalanceService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock

    def get(self, phone_number: str | None, context: RequestContext) -> Balance:
        """The balance of the main account or of a subscriber's account; zeros for an account that was never used."""
        context.require("balance:read")
        return _balance(read_holding(context.client_id, phone_number or MAIN_ACCOUNT), self._clock.now())

    def list(self, context: RequestContext) -> tuple[Balance, ...]:
        """Every account of a client, for the operator; those of providers, deposits and shortfalls may be negative."""
        context.require_operator()
        now = self._clock.now()
        kept = Account.select().where(Account.client_id == context.client_id).order_by(Account.name)
        return tuple(_balance(each, now) for each in kept)


def accounts_of(phone_number: str) -> Any:
    return Account.select().where(Account.client_id.in_(Client.select(Client.id)), Account.name == phone_number)


def moved_on_accounts_of(phone_number: str) -> Any:
    """Select the ids of the transactions that moved money on these accounts, also money of others, or reserved it."""
    accounts = accounts_of(phone_number).select(Account.id)
    moved = Transfer.select(Transfer.transaction_id)
    # The index of credited accounts has this condition.
    credited = moved.where(Transfer.credit_account_id.in_(accounts), SQL("kind IN ('move', 'post')"))
    return moved.where(Transfer.debit_account_id.in_(accounts)) | credited


def transactions_of(phone_number: str, is_seen: Any) -> Any:
    """Select the ids of the transactions that a phone number made or got, or whose money moved on its accounts.

    `is_seen` restricts the first ones, such as to a client, for their index.
    """
    own = Transaction.select(Transaction.id).where(is_seen, Transaction.phone_number == phone_number)
    return own | moved_on_accounts_of(phone_number)


def _balance(held: Holding | Account, now: datetime) -> Balance:
    available_cents = held.balance_cents - held.reserved_cents
    return Balance(held.name, "UGX", held.balance_cents, available_cents, held.reserved_cents, now)
