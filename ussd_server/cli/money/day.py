"""`day`: close a day of a provider, with the bridge from our sum to theirs."""

from __future__ import annotations

from datetime import datetime

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show, show_lines
from ussd_server.cli.names import KnownName, Moment, by_option
from ussd_server.cli.progress import progress
from ussd_server.context import operator_context
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.services.reconciliation.messages import BridgeStep, CloseDay, DayState
from ussd_server.values import iso_milliseconds, written_amount


@group()
def day() -> None:
    """Close the days of providers.

    \b
    ussd-server day close 2026-11-20 mtn --by 'Mary Akello'
    ussd-server day list
    """


@day.command(example="2026-11-20 mtn --by Ann")
@click.argument("date", type=Moment())
@click.argument("provider", type=KnownName(PROVIDER_NAMES))
@by_option
@click.option("--empty", "is_empty", is_flag=True, help="The provider's statement of this day has no lines.")
def close(date: datetime, provider: str, by: str, is_empty: bool) -> None:
    """Close DATE in Kampala for PROVIDER: keep both sums and what explains their difference.

    The statement of this day alone must have been compared, and the reviews of its differences must have ended. A day
    without payments is closed with --empty. What changes later counts on the day on which it comes, marked.
    """
    with progress():
        closed = services().days.close(CloseDay(date.date(), provider, by, is_empty), operator_context())
    sums = (closed.ours_cents, closed.theirs_cents, closed.difference_cents)
    ours, theirs, difference = map(written_amount, sums)
    lines = [f"{closed.date} of {provider} is closed: ours {ours}, theirs {theirs}, difference {difference}."]
    show(closed, "\n".join([*lines, *map(_line, closed.bridge)]))


@day.command(name="list", example="--open")
@click.option("--open", "is_open", is_flag=True, help="Only days that are not closed.")
def list_(is_open: bool) -> None:
    """Show the past 31 days of each provider, and which are closed."""
    found = services().days.list(operator_context())
    shown = [each for each in found if not (is_open and each.closed)]
    show_lines(shown, map(_state, shown), "Every day is closed.")


def _line(step: BridgeStep) -> str:
    late = f"  changes {step.late_for}" if step.late_for else ""
    return f"  {step.verdict:<16}{step.count:>8}  {written_amount(step.amount_cents):>20}{late}"


def _state(each: DayState) -> str:
    if each.closed is None:
        return f"{each.date}  {each.provider:<10}  open"
    difference = written_amount(each.closed.difference_cents)
    closed = f"closed by {each.closed.closed_by} at {iso_milliseconds(each.closed.closed_at)}"
    return f"{each.date}  {each.provider:<10}  {closed}, difference {difference}"
