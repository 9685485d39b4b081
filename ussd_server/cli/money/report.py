"""`report` and `day`: what became final on a day, and its close."""

from __future__ import annotations

from datetime import datetime

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, progress, show, show_lines
from ussd_server.cli.names import Moment, by_option, context_of
from ussd_server.context import operator_context
from ussd_server.services.reconciliation.messages import BridgeStep, CloseDay, DayState
from ussd_server.services.reports.messages import DailyReport, GetDailyReport
from ussd_server.values import iso_milliseconds, written_amount
from ussd_server.wire import writer


@group()
def report() -> None:
    """Reports of payments."""


@report.command(example="--date 2026-11-20 --client acme --csv")
@click.option("--date", "day", type=Moment(), help="The day in Kampala. Default: today.")
@click.option("--client", help="Name or id of a client. Default: all clients together.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a CSV file.")
def daily(day: datetime | None, client: str | None, as_csv: bool) -> None:
    """Show what became final on a day, by type, provider and status."""
    request, context = GetDailyReport(day.date() if day else None), context_of(client)
    if as_csv:
        for part in services().daily_reports.csv(request, context):
            click.echo(part, nl=False)
        return
    report = services().daily_reports.get(request, context)
    show(writer(DailyReport)(report), _sentences(report))


def _sentences(report: DailyReport) -> str:
    lines = [
        f"{row.type:<13} {row.provider or '-':<9} {row.status:<10} {row.count:>8}  "
        f"{written_amount(row.amount_cents):>20}  fees {written_amount(row.fees_cents):>16}  "
        f"median {row.median_seconds:.1f} s"
        for row in report.rows
    ]
    rate = "No payment became final." if report.success_rate is None else f"{report.success_rate:.1%} did not fail."
    return "\n".join([report.date, *lines, rate])


@group()
def day() -> None:
    """Close the days of accounts at providers.

    \b
    ussd-server day close 2026-11-20 mtn --by 'Mary Akello'
    ussd-server day close 2026-11-21 mtn --by 'Mary Akello' --and 'John Okot'
    ussd-server day list
    """


@day.command(example="2026-11-20 mtn --by Ann")
@click.argument("date", type=Moment())
@click.argument("account", type=str.lower)
@by_option
@click.option("--and", "second", help="A second person, for steps that no ended difference explains.")
@click.option("--empty", "is_empty", is_flag=True, help="The provider's statement of this day has no lines.")
def close(date: datetime, account: str, by: str, second: str | None, is_empty: bool) -> None:
    """Close DATE in Kampala for ACCOUNT at a provider: keep both sums and what explains their difference.

    Statements that cover the day must have been compared, and the reviews of its differences must have ended: their
    balances run on from before it to after it, or two people stated it (`reconcile --covers`). A day without payments
    is closed with --empty. What changes later counts on the day on which it comes, marked.
    """
    with progress():
        closed = services().days.close(CloseDay(date.date(), account, by, is_empty, second), operator_context())
    sums = (closed.ours_cents, closed.theirs_cents, closed.difference_cents)
    ours, theirs, difference = map(written_amount, sums)
    lines = [f"{closed.date} of {account} is closed: ours {ours}, theirs {theirs}, difference {difference}."]
    show(closed, "\n".join([*lines, *map(_bridge_line, closed.bridge)]))


@day.command(name="list", example="--open")
@click.option("--open", "is_open", is_flag=True, help="Only days that are not closed.")
def list_(is_open: bool) -> None:
    """Show the past 31 days of each account at a provider, and which are closed."""
    days = [each for each in services().days.list(operator_context()) if not (is_open and each.closed)]
    show_lines(days, map(_state, days), "Every day is closed." if is_open else "No day is over yet.")


def _bridge_line(step: BridgeStep) -> str:
    late = f"  changes {step.late_for}" if step.late_for else ""
    return f"  {step.verdict:<16}{step.count:>8}  {written_amount(step.amount_cents):>20}{late}"


def _state(each: DayState) -> str:
    if each.closed is None:
        return f"{each.date}  {each.account:<10}  open"
    difference = written_amount(each.closed.difference_cents)
    second = f" and {each.closed.confirmed_by}" if each.closed.confirmed_by else ""
    closed = f"closed by {each.closed.closed_by}{second} at {iso_milliseconds(each.closed.closed_at)}"
    return f"{each.date}  {each.account:<10}  {closed}, difference {difference}"
