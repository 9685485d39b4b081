"""Endpoint for collected payments."""

from __future__ import annotations

from schemas.transactions import ListTransactionsQuery, TransactionPageRecord
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.transactions.messages import ListTransactions, TransactionPage

collection = ApiBlueprint("collection", authenticate_api_key)


@collection.call(
    "GET", "/data/collection", needs="collection:read",
    query=ListTransactionsQuery, makes=ListTransactions, gives=TransactionPageRecord(), message="Collected payments",
)  # fmt: skip
def list_collected(request: ListTransactions, context: RequestContext) -> TransactionPage:
    """The client's collected payments, newest first."""
    return services().transactions.list_collected(request, context)
