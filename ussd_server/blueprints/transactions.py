"""Endpoints for transactions."""

from __future__ import annotations

from schemas.transactions import (
    CreateRefundBody,
    CreateTransactionBody,
    ListTransactionsQuery,
    TransactionHistoryRecord,
    TransactionPageRecord,
    TransactionRecord,
    WaitQuery,
)
from ussd_server.api.endpoints import ApiBlueprint, EndpointReply, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.transactions.messages import (
    CreatedTransaction,
    CreateRefund,
    CreateTransaction,
    GetTransaction,
    ListTransactions,
    TransactionPage,
    TransactionView,
)
from ussd_server.status import Code

transactions = ApiBlueprint("transactions", authenticate_api_key)


@transactions.call(
    "POST", "/api/transactions", needs="transactions:write", idempotent=True,
    takes=CreateTransactionBody, query=WaitQuery, makes=CreateTransaction, gives=TransactionRecord(),
    refuses=(Code.INSUFFICIENT_BALANCE, Code.TRANSACTION_FAILED), status=201,
    message="Transaction accepted",
)  # fmt: skip
def create_transaction(request: CreateTransaction, context: RequestContext) -> EndpointReply:
    """Take money from a subscriber, send money to one, or move it between two accounts kept here."""
    return _reply(services().transactions.create(request, context))


@transactions.call(
    "POST", "/api/transactions/<transaction_id>/refunds", needs="transactions:write", idempotent=True,
    takes=CreateRefundBody, makes=CreateRefund, gives=TransactionRecord(),
    refuses=(Code.TRANSACTION_NOT_FOUND, Code.INSUFFICIENT_BALANCE, Code.TRANSACTION_FAILED),
    status=201, message="Refund accepted",
)  # fmt: skip
def create_refund(request: CreateRefund, context: RequestContext) -> EndpointReply:
    """Give a succeeded collection back to its payer, wholly or in part."""
    return _reply(services().refunds.create(request, context))


@transactions.call(
    "GET", "/api/transactions/<transaction_id>", needs="transactions:read",
    query=WaitQuery, makes=GetTransaction, gives=TransactionHistoryRecord(),
    refuses=(Code.TRANSACTION_NOT_FOUND,), message="Transaction",
)  # fmt: skip
def get_transaction(request: GetTransaction, context: RequestContext) -> TransactionView:
    """One transaction with its status history; `wait` holds the reply until its status changes."""
    return services().transactions.get(request, context)


@transactions.call(
    "GET", "/api/transactions", needs="transactions:read",
    query=ListTransactionsQuery, makes=ListTransactions, gives=TransactionPageRecord(), message="Transactions",
)  # fmt: skip
def list_transactions(request: ListTransactions, context: RequestContext) -> TransactionPage:
    """The client's transactions, newest first."""
    return services().transactions.list(request, context)


def _reply(created: CreatedTransaction) -> EndpointReply:
    where = {"Location": f"/api/transactions/{created.transaction.transaction_id}"}
    if created.replayed:
        return EndpointReply(created.transaction, 200, "Transaction already recorded", {"Idempotent-Replayed": "true"})
    return EndpointReply(created.transaction, headers=where)
