"""Balances of the accounts that a client keeps here."""

from __future__ import annotations

from ussd_server.messages.balances import Balance, GetBalance
from ussd_server.messages.transactions import MAIN_ACCOUNT
from ussd_server.models.ledger import Account
from ussd_server.models.prepared import Prepared, blank
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.context import CallContext

_FIND = Prepared(
    lambda: Account.select(Account.balance_cents, Account.reserved_cents).where(
        Account.client_id == blank(Account.client_id), Account.name == blank(Account.name)
    )
)


class BalanceService:
    """Reads balances."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def get(self, wish: GetBalance, call: CallContext) -> Balance:
        """The balance of the main account or of a subscriber's; one that was never used shows zeros."""
        call.require("balance:read")
        name = wish.phone_number or MAIN_ACCOUNT
        account = _FIND.first(Account, client_id=call.client_id, name=name)
        current, reserved = (account.balance_cents, account.reserved_cents) if account else (0, 0)
        return Balance(name, "UGX", current, current - reserved, reserved, self._clock.now())

    def list(self, call: CallContext) -> tuple[Balance, ...]:
        """Every account of a client, for the operator; those of companies, deposits and shortfalls may be negative."""
        call.require_operator()
        now = self._clock.now()
        kept = Account.select().where(Account.client_id == call.client_id).order_by(Account.name)
        return tuple(
            Balance(each.name, each.currency, each.balance_cents, each.balance_cents - each.reserved_cents,
                    each.reserved_cents, now)
            for each in kept
        )  # fmt: skip
