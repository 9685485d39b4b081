"""`settlements`: what clients are due, what is reserved for their banks, and what was paid to them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import Moment, Shillings, by_option, client_named, context_of, file_argument, two_people
from ussd_server.context import operator_context
from ussd_server.services.bank import messages
from ussd_server.values import iso_milliseconds, written_amount


@group()
def settlements() -> None:
    """Settle the money of clients to their banks.

    \b
    ussd-server settlements propose --csv due.csv --by 'Mary Akello'
    ussd-server settlements record due.csv --by 'Mary Akello' --and 'John Okot'
    """


@settlements.command(name="set", example="acme --keep 50000 --minimum 10000")
@click.argument("client")
@click.option("--keep", "keep_cents", type=Shillings(0), help="Shillings that stay in the main account. Default: none.")
@click.option("--minimum", "minimum_cents", type=Shillings(0), help="The least settlement. Default: any sum.")
def set_(client: str, keep_cents: int | None, minimum_cents: int | None) -> None:
    """Agree with CLIENT (name or id) what stays here and the least settlement; both are replaced."""
    terms = messages.SetSettlementTerms(client_named(client).client_id, keep_cents, minimum_cents)
    account = services().bank_accounts.set_terms(terms, operator_context())
    show(account, _line(account))


@settlements.command(example="acme 9030001234567 --by Ann")
@click.argument("client")
@click.argument("number")
@by_option
def confirm(client: str, number: str, by: str) -> None:
    """Confirm the bank account that an owner of CLIENT (name or id) has stated, as a document of the bank says.

    NUMBER is the account's, from the document. Another account than the stated one is refused.
    """
    request = messages.ConfirmBankAccount(client_named(client).client_id, by, number=number)
    account = services().bank_accounts.confirm(request, operator_context())
    show(account, _line(account))


@settlements.command()
def accounts() -> None:
    """Show the bank account of every client, and whether it is confirmed."""
    bank_accounts = services().bank_accounts.list(operator_context())
    show_lines(bank_accounts, map(_line, bank_accounts), "There is no client yet.")


@settlements.command(example="--csv for-the-bank.csv --by Ann")
@click.option("--date", type=Moment(), help="What was available at the end of this day. Default: now.")
@click.option("--csv", "csv_path", type=click.Path(dir_okay=False, path_type=Path), help="Reserve, and write the file.")
@click.option("--by", help="Your name; needed with --csv.")
def propose(date: datetime | None, csv_path: Path | None, by: str | None) -> None:
    """Show what each client is due: what is available, less what stays here, if it is at least the minimum.

    With --csv each sum is reserved as a settlement, and the new file is for the bank. Record or cancel each of them.
    """
    day, service = date and date.date(), services().bank_settlements
    if csv_path is None:
        due = service.due(day, operator_context())
    elif by is None:
        raise click.UsageError("--csv needs --by, the name of the operator who proposes.")
    else:
        if csv_path.exists():
            raise click.ClickException(f"{csv_path} exists.")
        due = service.propose(messages.ProposeSettlements(by, day), operator_context())
        csv_path.write_bytes(b"".join(service.file(due)))
    show_lines(due, map(_line_of_due, due), "No client is due anything.")


@settlements.command(example="again.csv")
@click.argument("csv_path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def waiting(csv_path: Path) -> None:
    """Write FILE anew for the bank: every settlement that waits for it, also those that the bank has in a file.

    Settlements of disabled clients, and for a bank account that was changed since, are left out: cancel them.
    """
    settlements = services().bank_settlements.waiting(operator_context())
    csv_path.write_bytes(b"".join(services().bank_settlements.file(settlements)))
    show_lines(settlements, map(_line_of_due, settlements), "No settlement waits for the bank.")


@settlements.command(example="due.csv --by Ann --and Ben")
@file_argument
@click.option("--paid", "is_paid", is_flag=True, help="The bank has paid disabled clients and changed accounts, too.")
@two_people()
def record(file: Path, is_paid: bool, by: str, second: str) -> None:
    """Record the lines of FILE that have a bank reference, all or none; the same file again changes nothing."""
    with file.open("rb") as source:
        request = messages.RecordSettlements(source, by, second, is_paid)
        recorded = services().bank_settlements.record(request, operator_context())
    new = [each for each in recorded if not each.replayed]
    total = written_amount(sum(each.amount_cents for each in new))
    show(recorded, f"{len(new)} recorded, {total}; {len(recorded) - len(new)} had been recorded before.")


@settlements.command(example=f"{EXAMPLE_ID} --by Ann --and Ben")
@click.argument("settlement_id", metavar="ID")
@two_people()
def cancel(settlement_id: str, by: str, second: str) -> None:
    """Release the money of the settlement ID, which the bank has not paid and does not pay any more."""
    request = messages.EndSettlement(settlement_id, by, second)
    cancelled = services().bank_settlements.cancel(request, operator_context())
    show(cancelled, _line_of_settlement(cancelled))


@settlements.command(example=f"{EXAMPLE_ID} --by Ann --and Ben")
@click.argument("settlement_id", metavar="ID")
@two_people()
def returned(settlement_id: str, by: str, second: str) -> None:
    """Record that the bank sent the settlement ID back: its client's main account is credited."""
    request = messages.EndSettlement(settlement_id, by, second)
    reversed_ = services().bank_settlements.record_return(request, operator_context())
    show(reversed_, _line_of_settlement(reversed_))


@settlements.command(name="list", example="acme")
@click.argument("client", metavar="[CLIENT]", required=False)
def list_(client: str | None) -> None:
    """Show the newest settlements, of all clients or of CLIENT (name or id)."""
    settlements = services().bank_settlements.list(context_of(client))
    show_lines(settlements, map(_line_of_settlement, settlements), "Nothing was settled yet.")


def _line_of_due(due: messages.DueSettlement) -> str:
    amount = f"{written_amount(due.amount_cents):>20}  {due.client}: {due.bank}, {due.number}, {due.name}"
    return f"{due.settlement_id}  {amount}" if due.settlement_id else amount


def _line_of_settlement(made: messages.SettlementView) -> str:
    names = " and ".join(filter(None, (made.by, made.and_)))
    return (
        f"{made.settlement_id}  {iso_milliseconds(made.created_at)}  {written_amount(made.amount_cents):>20}  "
        f"{made.status:<9}  {made.client}  {made.bank_reference or ''}  by {names}"
    )


def _line(account: messages.BankAccountView) -> str:
    if account.bank is None:
        stated = "no bank account"
    else:
        state = f"confirmed by {account.confirmed_by}" if account.confirmed_at else "NOT CONFIRMED"
        stated = f"{account.bank}, {account.number}, {account.name}: {state}"
    keep, minimum = (written_amount(cents or 0) for cents in (account.keep_cents, account.minimum_cents))
    return f"{account.client}: {stated}; keeps {keep}, at least {minimum}"
