"""`recover`: after a restore, list the payments that providers have and we lost, and book them."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import click

from ussd_server.cli import services
from ussd_server.cli.commands import command, progress, show, show_lines
from ussd_server.cli.money.layouts import reading_of, reading_options
from ussd_server.cli.names import KnownFile, Moment, client_named
from ussd_server.context import operator_context
from ussd_server.services.reconciliation.messages import BookLost, Claim, FindLost, LostPayment
from ussd_server.spreadsheets.delimited import csv_parts, shillings_cell
from ussd_server.spreadsheets.headings import find_columns
from ussd_server.spreadsheets.reader import read_rows
from ussd_server.spreadsheets.rows import FileBounds, SpreadsheetError
from ussd_server.values import iso_milliseconds, written_amount

_COLUMNS = (
    "account", "provider_id", "provider_reference", "at", "type", "amount", "currency", "phone_number", "client",
    "reference", "refund_of",
)  # fmt: skip
_CLAIMED = ("account", "provider_id", "client", "reference")
_BOUNDS = FileBounds(most_bytes=10 * 1024 * 1024, most_unpacked_bytes=100 * 1024 * 1024, most_elements=1_000_000)


@command(example="--since 2026-11-20T14:00:00Z --statement mtn=statement.csv --csv lost.csv")
@click.option("--since", required=True, type=Moment(or_time=True), help="The moment that the restored database has.")
@click.option(
    "--statement",
    "statements",
    required=True,
    multiple=True,
    metavar="ACCOUNT=FILE",
    help="The statement of an account at a provider since.",
)
@click.option("--csv", "csv_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the list as a file.")
@click.option(
    "--book", "claims_file", type=KnownFile(), help="Book the rows of this file that name client and reference."
)
@reading_options
@click.option("--by", help="Your name, with --book.")
@click.option("--and", "second", help="The name of a second person, with --book.")
def recover(
    since: datetime,
    statements: tuple[str, ...],
    csv_path: Path | None,
    claims_file: Path | None,
    by: str | None,
    second: str | None,
    dates: str | None,
    thousands: str | None,
    all_in: bool,
    our_number: str | None,
) -> None:
    """List the payments that providers have and we do not, after a restore of the database; book them by two.

    \b
    ussd-server recover --since 2026-11-20T14:00:00Z --statement mtn=statement.csv --csv lost.csv
    ussd-server recover --since 2026-11-20T14:00:00Z --statement mtn=statement.csv --book lost.csv --by NAME --and NAME

    Write into the columns client and reference what each client says; the provider's name for the payment proves it.
    Rows without them are left out. A refund is booked too: name its collection in the column refund_of, unless only one
    fits. A repeat of the client's own request finds the booked payment.
    """
    if claims_file is not None and not (by and second):
        raise click.UsageError("--book needs --by and --and.")
    if claims_file is None and (by or second):
        raise click.UsageError("--by and --and need --book with the file of the rows to book; nothing was booked.")
    recovery = services().recovery
    with progress(), ExitStack() as files:
        opened = [(account, files.enter_context(path.open("rb"))) for account, path in map(_statement, statements)]
        request = FindLost(since, opened, reading_of(dates, thousands, all_in, our_number))
        lost = recovery.find(request, operator_context())
        if claims_file is not None:
            claims = _claims(claims_file)
            booked = recovery.book(BookLost(lost, claims, by or "", second or ""), operator_context())
            new = [each for each in booked if not each.replayed]
            total = written_amount(sum(each.amount_cents for each in new))
            show(booked, f"{len(new)} booked, {total}; {len(booked) - len(new)} had been booked before.")
            return
    if csv_path is not None:
        csv_path.write_bytes(b"".join(csv_parts(_COLUMNS, map(_cells, lost))))
    lines = [
        f"{iso_milliseconds(each.at)}  {each.account}  {each.type:<12}  {written_amount(each.amount_cents):>20}  "
        f"{each.phone_number or 'no number':<13}  {each.provider_id}  {each.reference}"
        for each in lost
    ]
    show_lines(lost, lines, "No payment was lost.")


def _statement(text: str) -> tuple[str, Path]:
    account, is_given, name = text.partition("=")
    path = Path(name)
    if not is_given or not path.is_file():
        raise click.BadParameter(f"{text!r} must be ACCOUNT=FILE with a file that exists.", param_hint="--statement")
    return account.lower(), path


def _claims(path: Path) -> list[Claim]:
    try:
        with path.open("rb") as file:
            rows = read_rows(file, _BOUNDS)
            wanted = {name: (name,) for name in (*_CLAIMED, "refund_of")}
            columns = find_columns(rows, wanted, [(name,) for name in _CLAIMED]).columns
            named = [[row.cell(columns.get(name)) for name in wanted] for row in rows]
    except SpreadsheetError as error:
        raise click.ClickException(f"{path.name}: {error}") from None
    return [
        Claim(account, provider_id, client_named(client).client_id, reference, refund_of or None)
        for account, provider_id, client, reference, refund_of in named
        if client and reference
    ]


def _cells(lost: LostPayment) -> tuple[object, ...]:
    at, amount = iso_milliseconds(lost.at), shillings_cell(lost.amount_cents)
    return (
        lost.account,
        lost.provider_id,
        lost.reference,
        at,
        lost.type,
        amount,
        "UGX",
        lost.phone_number,
        "",
        "",
        lost.refund_of,
    )
