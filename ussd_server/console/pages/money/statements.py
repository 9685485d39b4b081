"""Statements of accounts, and the report of a day."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta

from flask import Response, request

from ussd_server.api.requests import services
from ussd_server.console import formats, forms
from ussd_server.console.blueprint import console
from ussd_server.console.charts import Point
from ussd_server.console.formats import provider_name
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, ListedPage, send_csv, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.accounts.messages import GetBalances, GetStatement, StatementLine, StatementView
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.reports.messages import GetDailyReport
from ussd_server.services.transactions.messages import MAIN_ACCOUNT
from ussd_server.values import KAMPALA, bounds_of_day
from ussd_server.wire import Page

_MOST_POINTS = 31
_MOST_PRINTED = 2_000
_PRINTED_AT_ONCE = 100

_LINE_COLUMNS = (
    Column("at", "When", "moment"),
    Column("kind", "Kind", "word"),
    Column("reference", "Reference", "reference", link=lambda line: link_to("transaction", line.transaction_id)),
    Column("description", "Description", is_minor=True),
    Column("debit", "Debit", "money"),
    Column("credit", "Credit", "money"),
    Column("balance", "Balance", "money"),
    Column("transaction_id", "Transaction", "id", where="files"),
)
_REPORT_COLUMNS = (
    Column("type", "Type", "word", value=lambda row: row.type.capitalize()),
    Column("provider", "Provider", "word", value=lambda row: provider_name(row.provider)),
    Column("status", "Status", "status"),
    Column("count", "Payments", "number"),
    Column("amount", "Amount", "money"),
    Column("fees", "Fees", "money"),
    Column("median_seconds", "Time to complete", "duration"),
)


@console.page("GET", "/statements", needs="statements:read")
@console.operators_page("GET", "/operator/clients/<client_id>/statement")
def show_statement(context: RequestContext, client: ClientView | None = None) -> Response:
    first, last = _period()
    statement_request = _request_for(first, last)
    reader = services().statements
    is_whole = request.args.get("lines") == "all"
    page = _whole(statement_request, context) if is_whole else reader.get(statement_request, context)

    def following(cursor: str) -> Page[StatementLine]:
        behind = reader.get(replace(statement_request, cursor=cursor), context)
        return Page(behind.items, behind.next_cursor)

    table = DataTable(
        gettext("Statement of %(account)s, oldest first", account=statement_request.account),
        _LINE_COLUMNS,
        page.items if is_whole else ListedPage(page.items, page.next_cursor, following),
        empty_title="No movement",
        empty_text="Nothing moved in this account within the period.",
    )
    moments = _moments(first, last)
    balances = reader.balances(GetBalances(statement_request.account, tuple(moments)), context)
    return show_table(
        "console/statements/statement.html",
        table,
        page=page,
        account=statement_request.account,
        client=client,
        is_whole=is_whole,
        client_id=client and client.client_id,
        first=first,
        last=last,
        periods=_periods(),
        points=_points(moments, balances, is_day=first == last),
    )


def _whole(wanted: GetStatement, context: RequestContext) -> StatementView:
    """A statement of up to 2,000 lines as one page, for printing."""
    page = services().statements.get(replace(wanted, limit=_PRINTED_AT_ONCE, cursor=None), context)
    while page.next_cursor and len(page.items) < _MOST_PRINTED:
        following = services().statements.get(replace(wanted, limit=_PRINTED_AT_ONCE, cursor=page.next_cursor), context)
        page = replace(following, items=page.items + following.items)
    return page


@console.page("GET", "/statements/file.csv", needs="statements:read")
@console.operators_page("GET", "/operator/clients/<client_id>/statement.csv")
def download_statement(context: RequestContext, client: ClientView | None = None) -> Response:
    first, last = _period()
    wanted = _request_for(first, last)
    statement = services().statements.csv(wanted, context, for_people=True)
    return send_csv(statement.parts, "statement", client and client.name, wanted.account, first, last)


@console.page("GET", "/reports", needs="statements:read")
def show_report(context: RequestContext) -> Response:
    """What became final on a day, or in a month: `period` is the name of one of the usual periods."""
    periods = _periods()
    period = request.args.get("period", "")
    day = forms.date_of(request.args.get("date", "")) or forms.today()
    first, last = periods.get(period, (day, day))
    reports = services().daily_reports
    is_day = first == last
    report = reports.get(GetDailyReport(first), context) if is_day else reports.add_up(first, last, context)
    when = " – ".join(map(formats.written_day, sorted({first, last})))
    table = DataTable(
        gettext("Payments that became final: %(when)s", when=when),
        _REPORT_COLUMNS if is_day else _REPORT_COLUMNS[:-1],
        report.rows,
        empty_title="No payment",
        empty_text="No payment became final in this time.",
    )
    return show_table(
        "console/statements/report.html",
        table,
        report=report,
        day=day,
        when=when,
        chosen=(first, last),
        periods=periods,
    )


def _request_for(first: date, last: date) -> GetStatement:
    account = forms.phone_number(request.args.get("account", "").strip()) or MAIN_ACCOUNT
    return GetStatement(account, bounds_of_day(first)[0], bounds_of_day(last)[1], cursor=request.args.get("cursor"))


def _period() -> tuple[date, date]:
    """The first and the last day that the URL names; without them, this month."""
    default = _periods()["This month"]
    days = (forms.date_of(request.args.get(name, "")) for name in ("from", "to"))
    first, last = (day or usual for day, usual in zip(days, default, strict=True))
    return first, max(first, last)


def _periods() -> dict[str, tuple[date, date]]:
    """Periods to choose, by name."""
    today = forms.today()
    month = today.replace(day=1)
    end_of_last = month - timedelta(days=1)
    yesterday = today - timedelta(days=1)
    return marked(
        {
            "Today": (today, today),
            "Yesterday": (yesterday, yesterday),
            "This month": (month, today),
            "Last month": (end_of_last.replace(day=1), end_of_last),
        }
    )


def _moments(first: date, last: date) -> list[datetime]:
    """Evenly spaced moments of the period as far as it is over, its beginning and its end among them."""
    begin = bounds_of_day(first)[0]
    end = max(begin, min(bounds_of_day(last)[1], services().clock.now()))
    steps = 24 if first == last else min(_MOST_POINTS, max(1, (last - first).days + 1))
    return [begin + (end - begin) * step / steps for step in range(steps + 1)]


def _points(moments: list[datetime], balances: tuple[int, ...], *, is_day: bool) -> list[Point]:
    written = "%H:%M" if is_day else "%d %b"
    return [
        (moment.astimezone(KAMPALA).strftime(written), cents / 100)
        for moment, cents in zip(moments, balances, strict=True)
    ]
