"""`payouts`: make, list, show, approve, retry and cancel the payouts of a client."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import Moment, by_option, client_option, context_of, file_argument, two_people
from ussd_server.services.payouts import messages
from ussd_server.services.payouts.payouts import by_operators
from ussd_server.values import counted, written_amount

note_option = click.option("--note", help="A note of at most 200 characters, which the client reads.")


@group()
def payouts() -> None:
    """Make, list, show, approve, retry and cancel the payouts of a client."""


@payouts.command(example="salaries.csv --client acme --reference 'Salaries 2026-11' --by Ann")
@file_argument
@client_option
@click.option("--reference", required=True, help="The name of the payout, unique for the client for ever.")
@click.option("--description", help="What the client reads beside it.")
@click.option("--send-at", type=Moment(or_time=True), help="UTC; nothing is sent before. Default: once it is approved.")
@by_option
def create(
    file: Path,
    client: str,
    reference: str,
    description: str | None,
    send_at: datetime | None,
    by: str,
) -> None:
    """Make a draft of the rows in FILE (CSV or XLSX), and validate each row. Nothing is sent.

    The same file again under the same reference is the same payout. The columns are phone_number, amount and reference,
    and where wanted name and description.
    """
    if file.stat().st_size > messages.LARGEST_FILE_BYTES:
        raise click.ClickException(f"{file} has more than {messages.LARGEST_FILE_BYTES:,} bytes.")
    request = messages.CreatePayout(reference, description, file=file.read_bytes(), send_at=send_at)
    made = services().payouts.create(request, by_operators(context_of(client), by)).payout
    invalid = messages.ListPayoutItems(made.payout_id, state=messages.ItemState.INVALID)
    rows = services().payouts.items(invalid, context_of(client)).items
    problems = [f"  Row {row.line}: {' '.join(row.problems)}" for row in rows]
    show(made, "\n".join([_details(made), *problems]))


@payouts.command(name="list", example="--client acme")
@client_option
@click.option(
    "--status", type=click.Choice([status.value for status in messages.PayoutStatus]), help="Only of this status."
)
def list_(client: str, status: str | None) -> None:
    """List the newest payouts of a client, at most 50."""
    request = messages.ListPayouts(status=messages.PayoutStatus(status) if status else None)
    page = services().payouts.list(request, context_of(client))
    show_lines(page.items, map(_line, page.items), "The client has no such payouts.")


@payouts.command(name="show", example=f"{EXAMPLE_ID} --client acme")
@click.argument("payout_id")
@client_option
def show_(payout_id: str, client: str) -> None:
    """Show one payout, with the number and the sum of its rows in each state."""
    view = services().payouts.get(payout_id, context_of(client))
    show(view, _details(view))


@payouts.command(example=f"{EXAMPLE_ID} --client acme --by Ann --and Ben")
@click.argument("payout_id")
@client_option
@two_people("The name of a second operator: two people approve a payout.")
@click.option("--round", "number", type=click.IntRange(1), default=1, help="The round; a later one must be named.")
@note_option
def approve(payout_id: str, client: str, by: str, second: str, number: int, note: str | None) -> None:
    """Reserve the money of every row of a round at once, and send the rows. One of the two may have made the payout.

    With a date more than a day ahead the money is reserved when it is due. Where the client's rules ask for more
    approvals, this is one of them.
    """
    request = messages.ApprovePayout(payout_id, number, note=note)
    view = services().payouts.approve(request, by_operators(context_of(client), by, second))
    show(view, _details(view))


@payouts.command(example=f"{EXAMPLE_ID} --client acme --by Ann")
@click.argument("payout_id")
@client_option
@click.option("--row", "rows", multiple=True, help="The reference of a row; repeat it for more. Default: all that may.")
@click.option("--send-at", type=Moment(or_time=True), help="UTC; nothing is sent before. Default: once it is approved.")
@by_option
def retry(payout_id: str, client: str, rows: tuple[str, ...], send_at: datetime | None, by: str) -> None:
    """Open the next round: a draft of rows that failed for certain, or were cancelled unsent. Nothing is sent.

    A row whose failure its provider may still take back is refused, with the time from which it may be retried.
    """
    request = messages.RetryPayout(payout_id, rows or None, send_at)
    view = services().payouts.retry(request, by_operators(context_of(client), by)).payout
    show(view, _details(view))


@payouts.command(example=f"{EXAMPLE_ID} --client acme")
@click.argument("payout_id")
@client_option
@note_option
def cancel(payout_id: str, client: str, note: str | None) -> None:
    """Cancel every row that was not sent, and release its money. Rows that were sent go on."""
    view = services().payouts.cancel(messages.CancelPayout(payout_id, note), context_of(client))
    show(view, _details(view))


def _line(view: messages.PayoutStates) -> str:
    return (
        f"{view.payout_id}  {view.created_at:%Y-%m-%d %H:%M}  {view.status:<9}  {counted(view.item_count, 'row'):>9}  "
        f"{written_amount(view.total_amount_cents):>16}  {view.reference}"
    )


def _details(view: messages.PayoutStates) -> str:
    states = (
        f"  {state:<9}  {counted(entry.count, 'row'):>9}  {written_amount(entry.amount_cents):>16}, "
        f"fees {written_amount(entry.fee_cents)}"
        for state, entry in view.states.items()
    )
    date = [f"  sent from {view.send_at:%Y-%m-%d %H:%M} UTC"] if view.send_at else []
    if view.needs_money_at and not view.reserved_at:
        date.append(f"  its money was missing at {view.needs_money_at:%Y-%m-%d %H:%M} UTC")
    approvals = [
        f"  approved {each.at:%Y-%m-%d %H:%M} UTC{': ' + each.note if each.note else ''}" for each in view.approvals
    ]
    why = [f"  {view.withdrawal_reason}"] if view.withdrawal_reason else []
    sent = view.round
    last = f"  round {sent.number}: {counted(sent.item_count, 'row')}, {written_amount(sent.total_amount_cents)}, fees "
    rounds = [last + written_amount(sent.total_fee_cents)] if sent.number > 1 else []
    return "\n".join([_line(view), *rounds, *date, *approvals, *why, *states])
