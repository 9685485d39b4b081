"""`clients`: the companies that call the API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from ussd_server.cli import services
from ussd_server.cli.clients.seeds import ImportedRow, Row, seed_rows, text_of
from ussd_server.cli.commands import group, show, show_lines
from ussd_server.cli.names import client_named, sample_or_file_argument, two_people
from ussd_server.context import operator_context
from ussd_server.security.passwords import new_password
from ussd_server.services.clients.messages import ClientView, CreateClient, CreateUser
from ussd_server.services.payouts.messages import in_words
from ussd_server.services.providers.messages import ChooseConnection
from ussd_server.status import Code, ServiceError

Found = TypeVar("Found")


@group()
def clients() -> None:
    """Companies that call the API."""


@clients.command(example="acme")
@click.argument("name")
@click.option("--id", "client_id", metavar="UUID", help="The client's id, where it has one already.")
def create(name: str, client_id: str | None) -> None:
    """Make a client called NAME."""
    client = services().clients.create(CreateClient(name, client_id), operator_context())
    show(client, f"Client {client.name} has the id {client.client_id}.")


@clients.command(name="list")
def list_() -> None:
    """Show every client."""
    clients = services().clients.list(operator_context())
    show_lines(clients, map(_line, clients), "There are no clients.")


@clients.switch(
    disable="Refuse everything of CLIENT (name or id) from now on, and end its logins.",
    enable="Let CLIENT (name or id) call again.",
    example="acme",
)
@click.argument("client")
@click.option("--reason", help="Why, in 1 to 200 characters. The client's owners read it.")
def set_active(client: str, reason: str | None, is_active: bool) -> None:
    client_id = client_named(client).client_id
    changed = services().clients.set_active(client_id, is_active, operator_context(), reason)
    show(changed, _line(changed))


@clients.command(example="acme --ignore")
@click.argument("client")
@click.option("--count/--ignore", "is_counted", required=True, help="Count them (default), or stop.")
def readers(client: str, is_counted: bool) -> None:
    """Stop to count people of CLIENT (name or id) who read the secret of a key as people behind the key.

    While they count, they approve no payout that the key made, nor with the key what they made. With --ignore, nobody
    counts who read a secret before or after: one person who reads a colleague's secret can make and approve a payout
    alone.
    """
    client_id = client_named(client).client_id
    changed = services().clients.count_readers(client_id, is_counted, operator_context())
    show(changed, f"{_line(changed)}  {'counts' if is_counted else 'ignores'} readers")


@clients.command(example="acme mtn-acme --reason 'Its own contract with MTN' --by Ann --and Ben")
@click.argument("client")
@click.argument("name")
@click.option("--shared", "is_shared", is_flag=True, help="Let the connection of all take its new payments again.")
@click.option("--reason", required=True, help="Why, in at most 200 characters.")
@two_people()
def connection(client: str, name: str, is_shared: bool, reason: str, by: str, second: str) -> None:
    """Let connection NAME take the new payments of CLIENT (name or id), and those of nobody else.

    Two people must agree. Payments that were sent by another connection are finished there.
    """
    request = ChooseConnection(client_named(client).client_id, name, reason, by, second, is_shared)
    chosen = services().own_connections.choose(request, operator_context())
    whose = f"by {chosen.connection}, which serves nobody else" if chosen.connection else "by the connection of all"
    show(chosen, f"New payments of {client} at {chosen.provider} go {whose}.")


@clients.command(example='acme --confirm "1 above UGX 0, 2 above UGX 5,000,000"')
@click.argument("client")
@click.option("--confirm", "confirmed_rules", metavar="RULES", help="Let the proposed rules hold, as they are shown.")
def approval_rules(client: str, confirmed_rules: str | None) -> None:
    """Show how many approvals the payouts of CLIENT (name or id) need, and rules that wait for a confirmation.

    Its owners set the rules. Rules that ask for less wait until another owner or admin, or this command, confirms them.
    """
    rules, context = services().approval_rules, operator_context(client_named(client).client_id)
    view = rules.get(context) if confirmed_rules is None else rules.confirm(confirmed_rules, context)
    waiting = [f"waiting: {in_words(view.proposed_approval_rules)}"] if view.proposed_approval_rules else []
    show(view, "\n".join([in_words(view.approval_rules), *waiting]))


@clients.command(example="clients.csv")
@sample_or_file_argument
def seed(file: Path | None) -> None:
    """Make the clients and owners that FILE lists, a JSON array of objects or a CSV file.

    Without FILE, a sandbox gets the shipped list, whose passwords are printed.

    \b
    name      of the client; one that exists already stays as it is (required)
    id        of the client, a UUID, where it has one already
    email     of a person who signs in for it
    role      of that person: owner (default), admin, developer or viewer
    password  of that person; without it one is made and printed this once

    A second run changes nothing. Whatever contradicts what is there is refused, and the exit code is 1.
    """
    optional = ["id", "email", "role", "password"]
    seed_rows(file, "clients.csv", ["name"], optional, _import_row, printed_column="password")


def _import_row(row: Row) -> ImportedRow:
    context = operator_context()
    name, client_id = text_of(row, "name"), text_of(row, "id") or None
    client = _find(lambda: services().clients.find(name, context))
    if client is None:
        client, outcome = services().clients.create(CreateClient(name, client_id), context), "created"
    elif client_id in (None, client.client_id):
        outcome = "unchanged"
    else:
        raise ValueError(f"id: The client {name} has the id {client.client_id}.")
    values = {"client": client.name, "client_id": client.client_id}
    if "email" not in row:
        return ImportedRow(outcome, values)
    email, role, password = text_of(row, "email").lower(), text_of(row, "role", "owner"), text_of(row, "password")
    values["email"] = email
    user = _find(lambda: services().clients.find_user(email, context))
    if user is None:
        chosen = password or new_password()
        services().clients.create_user(CreateUser(client.client_id, email, role, chosen), context)
        return ImportedRow("created", values if password else {**values, "password": chosen})
    if (user.client_id, user.role) != (client.client_id, role):
        raise ValueError(f"email: {email} belongs to another client or has another role.")
    if password and not services().clients.has_password(email, password, context):
        raise ValueError(f"password: {email} has another one; `ussd-server users password` changes it.")
    return ImportedRow(outcome, values)


def _find(look: Callable[[], Found]) -> Found | None:
    try:
        return look()
    except ServiceError as refusal:
        if refusal.code is not Code.NOT_FOUND:
            raise
        return None


def _line(client: ClientView) -> str:
    return f"{client.client_id}  {'active  ' if client.is_active else 'disabled'}  {client.name}"
