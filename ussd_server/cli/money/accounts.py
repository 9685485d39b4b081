"""`accounts` and `fees`: the accounts of clients, credits by the operator, and what clients pay."""

from __future__ import annotations

from datetime import datetime

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show, show_lines, wants_json
from ussd_server.cli.names import (
    KnownName,
    Shillings,
    client_named,
    client_option,
    context_of,
    period_options,
    two_people,
)
from ussd_server.context import operator_context
from ussd_server.services.accounts.ledger import list_fees, set_fee
from ussd_server.services.accounts.messages import FeeTerms, GetStatement, StatementLine
from ussd_server.services.movements.messages import FillShortfall, UndonePayment
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, CreateDeposit, TransactionType
from ussd_server.values import shillings, written_amount
from ussd_server.wire import writer

_TYPES_WITH_FEES = ["collection", "disbursement", "transfer", "refund"]


@group()
def accounts() -> None:
    """Show and credit the accounts of clients."""


@accounts.command(example="--client acme --amount 500000 --reference slip-17")
@click.option("--client", metavar="CLIENT", help="The client, by name or id.")
@click.option("--amount", "amount_cents", type=Shillings(), help="Shillings, such as 50000 or 99.50.")
@click.option("--reference", help="Your own name for the deposit; the same one again changes nothing.")
@click.option("--description", help="What the client reads beside it.")
@click.option("--by", help="Your name, which the client sees as who made it.")
@click.option("--undo", metavar="ID", help="Take this mistaken deposit back instead; two people must agree.")
@click.option("--reason", default="", help="With --undo: why; the audit trail keeps it.")
@click.option("--and", "second", default="", help="With --undo: the name of a second person.")
def credit(
    client: str | None,
    amount_cents: int | None,
    reference: str | None,
    description: str | None,
    by: str | None,
    undo: str | None,
    reason: str,
    second: str,
) -> None:
    """Credit a client's main account with what it has paid you, or take a mistaken credit back.

    What the account lacks of a credit that is taken back is the client's shortfall.

    \b
    ussd-server accounts credit --undo ID --reason "slip-17 was another client's" --by NAME --and NAME
    """
    context = operator_context()
    if undo is not None:
        if client or amount_cents or reference or description:
            raise click.UsageError("--undo takes --reason, --by and --and alone.")
        undone = services().releases.undo_deposit(UndonePayment(undo, reason, by or "", second), context)
        show(undone, f"{written_amount(undone.amount_cents)} is taken back; transaction {undone.transaction_id}.")
        return
    if client is None or amount_cents is None or reference is None:
        raise click.UsageError("A credit needs --client, --amount and --reference.")
    client_id = client_named(client).client_id
    deposit = CreateDeposit(client_id, amount_cents, reference, description, by)
    created = services().deposits.create(deposit, context)
    made = created.transaction
    verb = "had been credited before" if created.replayed else "is credited"
    sentence = f"{written_amount(made.amount_cents)} {verb}, transaction {made.transaction_id}."
    show({"transaction": made, "replayed": created.replayed}, sentence)


@accounts.command(example="--client acme --reason 'Agreed by telephone' --by Ann --and Bob")
@client_option
@click.option("--account", default=MAIN_ACCOUNT, help="A subscriber's phone number. Default: main.")
@click.option("--reason", required=True, help="Why; the client reads it, and the audit trail keeps it.")
@two_people()
def fill(client: str, account: str, reason: str, by: str, second: str) -> None:
    """Fill a client's shortfall with what its account has available: all of it, or as much as there is.

    A shortfall is what an account lacked when money had left already. Two people must agree.
    """
    request = FillShortfall(client_named(client).client_id, reason, by, second, account)
    filled = services().corrections.fill(request, operator_context())
    show(filled, f"{written_amount(filled.amount_cents)} of the shortfall is filled, by {filled.transaction_id}.")


@accounts.command(example="acme --from 2026-11-01 --to 2026-12-01 --csv")
@click.argument("client")
@click.option("--account", default=MAIN_ACCOUNT, help="A subscriber's phone number. Default: main.")
@period_options
@click.option("--csv", "as_csv", is_flag=True, help="Print a CSV file.")
def statement(client: str, account: str, from_at: datetime | None, to_at: datetime | None, as_csv: bool) -> None:
    """Show what moved in an account of CLIENT (name or id), with the balances before and after."""
    period = GetStatement(account, from_at, to_at)
    context = context_of(client)
    if as_csv:
        for part in services().statements.csv(period, context).parts:
            click.echo(part, nl=False)
        return
    account_statement = services().statements.stream(period, context)
    if wants_json():
        lines = list(map(writer(StatementLine), account_statement.lines))
        balances = (account_statement.opening_balance_cents, account_statement.closing_balance_cents)
        opening, closing = map(shillings, balances)
        show({"opening_balance": opening, "closing_balance": closing, "items": lines}, "")
        return
    click.echo(f"Opening balance {written_amount(account_statement.opening_balance_cents)}")
    for line in account_statement.lines:
        cents = line.credit_cents if line.debit_cents is None else -line.debit_cents
        click.echo(
            f"{line.at}  {line.kind:<12}  {written_amount(cents or 0):>20}  "
            f"{written_amount(line.balance_cents):>20}  {line.reference}"
        )
    click.echo(f"Closing balance {written_amount(account_statement.closing_balance_cents)}")


@accounts.command(name="list", example="--client acme")
@client_option
def list_(client: str) -> None:
    """Show every account that is kept for a client; they add up to zero."""
    kept = services().balances.list(context_of(client))
    lines = [
        f"{each.account:<20}  {written_amount(each.current_cents):>20}"
        + (f"  of which reserved {written_amount(each.reserved_cents)}" if each.reserved_cents else "")
        for each in kept
    ]
    show_lines(kept, lines, "The client has no account yet.")


@group()
def fees() -> None:
    """What clients pay for their transactions."""


@fees.command(name="set", example="--client acme --type collection --fixed 200 --share-basis-points 150")
@client_option
@click.option("--type", "kind", required=True, type=KnownName(_TYPES_WITH_FEES))
@click.option("--fixed", "fixed_cents", default=0, type=Shillings(least_cents=0), help="Shillings for any amount.")
@click.option(
    "--share-basis-points", default=0, type=click.IntRange(0, 10_000), help="150 is 1.5 percent of the amount."
)
def set_(client: str, kind: str, fixed_cents: int, share_basis_points: int) -> None:
    """Agree a fee for the transactions that are created from now on; zeros end it."""
    client_id = client_named(client).client_id
    terms = FeeTerms(client_id, TransactionType(kind), fixed_cents, share_basis_points)
    agreed = set_fee(terms, operator_context(), services().clock.now())
    show(agreed, _fee_line(agreed))


@fees.command(name="list")
def list_agreed() -> None:
    """Show what was agreed."""
    services()  # opens the database
    agreed = list_fees(operator_context())
    show_lines(agreed, map(_fee_line, agreed), "No fees were agreed.")


def _fee_line(fee: FeeTerms) -> str:
    share = f"{fee.share_basis_points / 100:g}"
    return f"{fee.client_id}  {fee.type:<12}  {written_amount(fee.fixed_cents)} and {share} percent"
