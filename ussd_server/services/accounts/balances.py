"""Balances of the accounts that a client has here."""

from __future__ import annotations

from datetime import datetime

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import GroupCommit
from ussd_server.models.ledger import Account, Holding, read_holdings
from ussd_server.services.accounts.messages import Balance
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import MAIN_ACCOUNT


class BalanceService:
    """Reads balances."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._batches = GroupCommit(read_holdings)

    def get(self, phone_number: str | None, context: RequestContext) -> Balance:
        """The balance of the main account or of a subscriber's account; zeros for an account that was never used."""
        context.require("balance:read")
        name = phone_number or MAIN_ACCOUNT
        held = Holding(context.client_id, name)
        self._batches.do(held)
        return _balance(held, self._clock.now())

    def list(self, context: RequestContext) -> tuple[Balance, ...]:
        """Every account of a client, for the operator; those of providers, deposits and shortfalls may be negative."""
        context.require_operator()
        now = self._clock.now()
        kept = Account.select().where(Account.client_id == context.client_id).order_by(Account.name)
        return tuple(_balance(each, now) for each in kept)


def _balance(held: Holding | Account, now: datetime) -> Balance:
    available_cents = held.balance_cents - held.reserved_cents
    return Balance(held.name, "UGX", held.balance_cents, available_cents, held.reserved_cents, now)
