"""The door to collected data."""

from __future__ import annotations

from schemas.transactions import ListTransactionsQuery, TransactionPageRecord
from ussd_server.blueprints.doors import Doorway, by_key
from ussd_server.blueprints.exchange import services
from ussd_server.messages.transactions import ListTransactions, TransactionPage
from ussd_server.rpc.context import CallContext

collection = Doorway("collection", by_key)


@collection.call(
    "GET", "/data/collection", needs="collection:read",
    query=ListTransactionsQuery, makes=ListTransactions, gives=TransactionPageRecord(), message="Collected payments",
)  # fmt: skip
def list_collected(wish: ListTransactions, call: CallContext) -> TransactionPage:
    """The client's collected payments, newest first."""
    return services().transactions.list_collected(wish, call)
