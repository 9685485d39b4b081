"""`report`: what became final on a day."""

from __future__ import annotations

from datetime import datetime

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show
from ussd_server.cli.names import Moment, context_of
from ussd_server.services.reports.messages import DailyReport, GetDailyReport
from ussd_server.values import written_amount
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
    found = services().daily_reports.get(request, context)
    show(writer(DailyReport)(found), _sentences(found))


def _sentences(found: DailyReport) -> str:
    lines = [
        f"{row.type:<13} {row.provider or '-':<9} {row.status:<10} {row.count:>8}  "
        f"{written_amount(row.amount_cents):>20}  fees {written_amount(row.fees_cents):>16}  "
        f"median {row.median_seconds:.1f} s"
        for row in found.rows
    ]
    rate = "No payment became final." if found.success_rate is None else f"{found.success_rate:.1%} did not fail."
    return "\n".join([found.date, *lines, rate])
