"""`settlements`: what clients are due, and what was paid to their banks."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show, show_lines
from ussd_server.cli.names import Moment, Shillings, by_option, client_named, context_of, file_argument, two_people
from ussd_server.context import operator_context
from ussd_server.services.bank.messages import (
    BankAccountView,
    ConfirmBankAccount,
    RecordSettlements,
    SetSettlementTerms,
)
from ussd_server.values import iso_milliseconds, written_amount


@group()
def settlements() -> None:
    """Settle the money of clients to their banks.

    \b
    ussd-server settlements propose --csv due.csv
    ussd-server settlements record due.csv --by 'Mary Akello' --and 'John Okot'
    """


@settlements.command(name="set", example="acme --keep 50000 --minimum 10000")
@click.argument("client")
@click.option("--keep", "keep_cents", type=Shillings(0), help="Shillings that stay in the main account. Default: none.")
@click.option("--minimum", "minimum_cents", type=Shillings(0), help="The least settlement. Default: any sum.")
def set_(client: str, keep_cents: int | None, minimum_cents: int | None) -> None:
    """Agree with CLIENT (name or id) what stays here and the least settlement; both are replaced."""
    terms = SetSettlementTerms(client_named(client).client_id, keep_cents, minimum_cents)
    account = services().bank_accounts.set_terms(terms, operator_context())
    show(account, _line(account))


@settlements.command(example="acme --by Ann")
@click.argument("client")
@by_option
def confirm(client: str, by: str) -> None:
    """Confirm the bank account that an owner of CLIENT (name or id) has stated. Compare it with a document first."""
    request = ConfirmBankAccount(client_named(client).client_id, by)
    account = services().bank_accounts.confirm(request, operator_context())
    show(account, _line(account))


@settlements.command()
def accounts() -> None:
    """Show the bank account of every client, and whether it is confirmed."""
    found = services().bank_accounts.list(operator_context())
    show_lines(found, map(_line, found), "There is no client yet.")


@settlements.command(example="--csv due.csv")
@click.option("--date", type=Moment(), help="What was available at the end of this day. Default: now.")
@click.option("--csv", "csv_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the file for the bank.")
def propose(date: datetime | None, csv_path: Path | None) -> None:
    """Show what each client is due: what is available, less what stays here, if it is at least the minimum."""
    day = date and date.date()
    due = services().bank_settlements.propose(day, operator_context())
    if csv_path is not None:
        csv_path.write_bytes(b"".join(services().bank_settlements.file(day, operator_context())))
    lines = [
        f"{written_amount(each.amount_cents):>20}  {each.client}: {each.bank}, {each.number}, {each.name}"
        for each in due
    ]
    show_lines(due, lines, "No client is due anything.")


@settlements.command(example="due.csv --by Ann --and Ben")
@file_argument
@two_people()
def record(file: Path, by: str, second: str) -> None:
    """Record the lines of FILE that have a bank reference, all or none; the same file again changes nothing."""
    with file.open("rb") as source:
        request = RecordSettlements(source, by, second)
        recorded = services().bank_settlements.record(request, operator_context())
    new = [each for each in recorded if not each.replayed]
    total = written_amount(sum(each.amount_cents for each in new))
    show(recorded, f"{len(new)} recorded, {total}; {len(recorded) - len(new)} had been recorded before.")


@settlements.command(name="list", example="acme")
@click.argument("client", metavar="[CLIENT]", required=False)
def list_(client: str | None) -> None:
    """Show the newest settlements, of all clients or of CLIENT (name or id)."""
    found = services().bank_settlements.list(context_of(client))
    lines = [
        f"{iso_milliseconds(each.created_at)}  {written_amount(each.amount_cents):>20}  "
        f"{each.client}  {each.bank_reference}"
        for each in found
    ]
    show_lines(found, lines, "Nothing was settled yet.")


def _line(account: BankAccountView) -> str:
    if account.bank is None:
        stated = "no bank account"
    else:
        state = f"confirmed by {account.confirmed_by}" if account.confirmed_at else "NOT CONFIRMED"
        stated = f"{account.bank}, {account.number}, {account.name}: {state}"
    keep, minimum = (written_amount(cents or 0) for cents in (account.keep_cents, account.minimum_cents))
    return f"{account.client}: {stated}; keeps {keep}, at least {minimum}"
