"""`accounts`: the accounts of clients, and credits by the operator."""

from __future__ import annotations

import click

from ussd_server.cli import open_services, show, with_json
from ussd_server.cli.money.shillings import Shillings, written_shillings
from ussd_server.context import operator_context
from ussd_server.messages.transactions import CreateDeposit


@click.group()
def accounts() -> None:
    """Show and credit the accounts of clients."""


@accounts.command()
@click.option("--client", required=True, help="Name or id of the client.")
@click.option("--amount", "amount_cents", required=True, type=Shillings(), help="Shillings, such as 50000 or 99.50.")
@click.option("--reference", required=True, help="Your own name for the deposit; the same one again changes nothing.")
@click.option("--description", help="What the client reads beside it.")
@with_json
def credit(client: str, amount_cents: int, reference: str, description: str | None, as_json: bool) -> None:
    """Credit a client's main account with what it has paid you."""
    with open_services() as services:
        context = operator_context()
        client_id = services.clients.clients.find(client, context).client_id
        created = services.transactions.deposits.create(
            CreateDeposit(client_id, amount_cents, reference, description), context
        )
    made = created.transaction
    verb = "had been credited before" if created.replayed else "is credited"
    sentence = f"{written_shillings(made.amount_cents)} {verb}, transaction {made.transaction_id}."
    show({"transaction": made, "replayed": created.replayed}, sentence, as_json=as_json)


@accounts.command(name="list")
@click.option("--client", required=True, help="Name or id of the client.")
@with_json
def list_(client: str, as_json: bool) -> None:
    """Show every account that is kept for a client; they add up to zero."""
    with open_services() as services:
        client_id = services.clients.clients.find(client, operator_context()).client_id
        kept = services.accounts.balances.list(operator_context(client_id))
    lines = [
        f"{each.account:<20}  {written_shillings(each.current_cents):>20}"
        + (f"  of which reserved {written_shillings(each.reserved_cents)}" if each.reserved_cents else "")
        for each in kept
    ]
    show(kept, "\n".join(lines) or "The client has no account yet.", as_json=as_json)
