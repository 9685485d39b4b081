"""Endpoints for statements and reports."""

from __future__ import annotations

from flask import Response

from schemas.statements import GetDailyReportQuery, GetStatementQuery
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key, csv_file
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.accounts.messages import GetStatement, StatementView
from ussd_server.services.reports.messages import DailyReport, GetDailyReport

statements = ApiBlueprint("statements", authenticate_api_key)


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
