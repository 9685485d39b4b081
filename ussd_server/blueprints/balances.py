"""Endpoint for balances."""

from __future__ import annotations

from schemas.balances import BalanceRecord, GetBalanceQuery
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.accounts.messages import Balance, GetBalance

balances = ApiBlueprint("balances", authenticate_api_key)


@balances.call(
    "GET", "/api/balance", needs="balance:read",
    query=GetBalanceQuery, makes=GetBalance, gives=BalanceRecord(), message="Balance",
)  # fmt: skip
def get_balance(request: GetBalance, context: RequestContext) -> Balance:
    """The balance of the main account, or of the account kept for a subscriber."""
    return services().balances.get(request, context)
