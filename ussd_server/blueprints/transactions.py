"""Endpoints for transactions, collected payments, balances, statements and daily reports."""

from __future__ import annotations

from flask import Response

from schemas.transactions import (
    CreateRefundBody,
    CreateTransactionBody,
    GetBalanceQuery,
    GetDailyReportQuery,
    GetStatementQuery,
    ListTransactionsQuery,
    WaitQuery,
)
from ussd_server.api.endpoints import ApiBlueprint, EndpointReply, authenticate_api_key, created, csv_file
from ussd_server.api.requests import current_request, services
from ussd_server.context import SEND, RequestContext
from ussd_server.services.accounts.messages import Balance, GetStatement, StatementView
from ussd_server.services.reports.messages import DailyReport, GetDailyReport
from ussd_server.services.transactions import messages
from ussd_server.status import Code
from ussd_server.wire import Page

transactions = ApiBlueprint(
    "transactions",
    authenticate_api_key,
    "Payments",
    "Collect money from subscribers, pay it out, refund it, follow each payment, and read balances.",
)
statements = ApiBlueprint(
    "statements",
    authenticate_api_key,
    "Statements and reports",
    "Every movement of an account, and the totals of a day.",
)
_FINAL = (messages.TransactionStatus.SUCCEEDED, messages.TransactionStatus.FAILED)


@transactions.call(
    "POST",
    "/api/transactions",
    needs="transactions:write",
    or_needs=SEND,
    idempotent=True,
    takes=CreateTransactionBody,
    query=WaitQuery,
    refuses=(Code.INSUFFICIENT_BALANCE, Code.DAILY_LIMIT_REACHED, Code.TRANSACTION_FAILED),
    status=201,
    message="Transaction accepted",
)
def create_transaction(
    request: messages.CreateTransaction, context: RequestContext
) -> EndpointReply[messages.TransactionView]:
    """Take money from a subscriber, send money to one, or move it between two accounts kept here."""
    if request.type != messages.TransactionType.COLLECTION:
        current_request().scope = SEND
    return _reply(services().transactions.create(request, context))


@transactions.call(
    "POST",
    "/api/transactions/<transaction_id>/refunds",
    needs=SEND,
    idempotent=True,
    takes=CreateRefundBody,
    query=WaitQuery,
    refuses=(
        Code.TRANSACTION_NOT_FOUND,
        Code.INSUFFICIENT_BALANCE,
        Code.DAILY_LIMIT_REACHED,
        Code.TRANSACTION_FAILED,
    ),
    status=201,
    message="Refund accepted",
)
def create_refund(request: messages.CreateRefund, context: RequestContext) -> EndpointReply[messages.TransactionView]:
    """Give a succeeded collection back to its payer, wholly or in part."""
    return _reply(services().refunds.create(request, context), "Refund")


@transactions.call(
    "GET",
    "/api/transactions/<transaction_id>",
    needs="transactions:read",
    query=WaitQuery,
    refuses=(Code.TRANSACTION_NOT_FOUND,),
    message="Transaction",
)
def get_transaction(request: messages.GetTransaction, context: RequestContext) -> messages.TransactionHistory:
    """One transaction with its status history; `wait` holds the reply until its status changes."""
    return services().transactions.get(request, context)


@transactions.call(
    "GET", "/api/transactions", needs="transactions:read", query=ListTransactionsQuery, message="Transactions"
)
def list_transactions(request: messages.ListTransactions, context: RequestContext) -> Page[messages.TransactionView]:
    """The client's transactions, newest first."""
    return services().transactions.list(request, context)


@transactions.call(
    "GET", "/data/collection", needs="collection:read", query=ListTransactionsQuery, message="Collected payments"
)
def list_collected(request: messages.ListTransactions, context: RequestContext) -> Page[messages.TransactionView]:
    """The client's collected payments, newest first."""
    return services().transactions.list_collected(request, context)


@transactions.call("GET", "/api/balance", needs="balance:read", query=GetBalanceQuery, message="Balance")
def get_balance(phone_number: str | None, context: RequestContext) -> Balance:
    """The balance of the main account, or of the account kept for a subscriber."""
    return services().balances.get(phone_number, context)


def _reply(made: messages.CreatedTransaction, noun: str = "Transaction") -> EndpointReply[messages.TransactionView]:
    status = made.transaction.status
    return created(
        made.transaction,
        f"/api/transactions/{made.transaction.transaction_id}",
        replayed=made.replayed,
        message=f"{noun} {status}" if status in _FINAL else None,
        again="Transaction already recorded",
    )


def _send_statement(request: GetStatement, context: RequestContext) -> Response:
    statement = services().statements.csv(request, context)
    balances = {"Opening-Balance": statement.opening_balance, "Closing-Balance": statement.closing_balance}
    return csv_file(f"statement-{request.account.removeprefix('+')}.csv", statement.parts, balances)


@statements.call(
    "GET",
    "/api/statements",
    needs="statements:read",
    query=GetStatementQuery,
    also={"text/csv": _send_statement},
    message="Statement",
)
def get_statement(request: GetStatement, context: RequestContext) -> StatementView:
    """What moved in an account within a period, oldest first, with the balances before and after it."""
    return services().statements.get(request, context)


@statements.call(
    "GET", "/api/reports/daily", needs="statements:read", query=GetDailyReportQuery, message="Daily report"
)
def get_daily_report(request: GetDailyReport, context: RequestContext) -> DailyReport:
    """What became final on a day in Kampala: counts, sums, fees and times by type, provider and status."""
    return services().daily_reports.get(request, context)
