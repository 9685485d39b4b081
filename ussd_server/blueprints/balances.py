"""The door to balances."""

from __future__ import annotations

from schemas.balances import BalanceRecord, GetBalanceQuery
from ussd_server.blueprints.doors import Doorway, by_key
from ussd_server.blueprints.exchange import services
from ussd_server.messages.balances import Balance, GetBalance
from ussd_server.rpc.context import CallContext

balances = Doorway("balances", by_key)


@balances.call(
    "GET", "/api/balance", needs="balance:read",
    query=GetBalanceQuery, makes=GetBalance, gives=BalanceRecord(), message="Balance",
)  # fmt: skip
def get_balance(wish: GetBalance, call: CallContext) -> Balance:
    """The balance of the main account, or of the account kept for a subscriber."""
    return services().balances.get(wish, call)
