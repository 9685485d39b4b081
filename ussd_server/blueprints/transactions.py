"""The door to transactions."""

from __future__ import annotations

from schemas.transactions import (
    CreateRefundBody,
    CreateTransactionBody,
    ListTransactionsQuery,
    TransactionPageRecord,
    TransactionRecord,
    TransactionStoryRecord,
    WaitQuery,
)
from ussd_server.blueprints.doors import Doorway, Reply, by_key
from ussd_server.blueprints.exchange import services
from ussd_server.messages.transactions import (
    CreateRefund,
    CreateTransaction,
    GetTransaction,
    ListTransactions,
    Recorded,
    TransactionPage,
    TransactionView,
)
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.status import Code

transactions = Doorway("transactions", by_key)


@transactions.call(
    "POST", "/api/transactions", needs="transactions:write", idempotent=True,
    takes=CreateTransactionBody, query=WaitQuery, makes=CreateTransaction, gives=TransactionRecord(),
    refuses=(Code.INSUFFICIENT_BALANCE, Code.TRANSACTION_FAILED), status=201,
    message="Transaction accepted",
)  # fmt: skip
def create_transaction(wish: CreateTransaction, call: CallContext) -> Reply:
    """Take money from a subscriber, send money to one, or move it between two accounts kept here."""
    return _recorded(services().transactions.create(wish, call))


@transactions.call(
    "POST", "/api/transactions/<transaction_id>/refunds", needs="transactions:write", idempotent=True,
    takes=CreateRefundBody, makes=CreateRefund, gives=TransactionRecord(),
    refuses=(Code.TRANSACTION_NOT_FOUND, Code.INSUFFICIENT_BALANCE, Code.TRANSACTION_FAILED),
    status=201, message="Refund accepted",
)  # fmt: skip
def create_refund(wish: CreateRefund, call: CallContext) -> Reply:
    """Give a succeeded collection back to its payer, wholly or in part."""
    return _recorded(services().refunds.create(wish, call))


@transactions.call(
    "GET", "/api/transactions/<transaction_id>", needs="transactions:read",
    query=WaitQuery, makes=GetTransaction, gives=TransactionStoryRecord(),
    refuses=(Code.TRANSACTION_NOT_FOUND,), message="Transaction",
)  # fmt: skip
def get_transaction(wish: GetTransaction, call: CallContext) -> TransactionView:
    """One transaction with everything that happened to it; `wait` holds the answer until its state changes."""
    return services().transactions.get(wish, call)


@transactions.call(
    "GET", "/api/transactions", needs="transactions:read",
    query=ListTransactionsQuery, makes=ListTransactions, gives=TransactionPageRecord(), message="Transactions",
)  # fmt: skip
def list_transactions(wish: ListTransactions, call: CallContext) -> TransactionPage:
    """The client's transactions, newest first."""
    return services().transactions.list(wish, call)


def _recorded(recorded: Recorded) -> Reply:
    where = {"Location": f"/api/transactions/{recorded.transaction.transaction_id}"}
    if recorded.replayed:
        return Reply(recorded.transaction, 200, "Transaction already recorded", {"Idempotent-Replayed": "true"})
    return Reply(recorded.transaction, headers=where)
