"""`clients`: the companies that call."""

from __future__ import annotations

import click

from ussd_server.cli import open_house, show, with_json
from ussd_server.messages.clients import ClientView, CreateClient
from ussd_server.rpc.context import operator_call


@click.group()
def clients() -> None:
    """Companies that call the API."""


@clients.command()
@click.argument("name")
@click.option("--id", "client_id", metavar="UUID", help="The client's id, where it has one already.")
@with_json
def create(name: str, client_id: str | None, as_json: bool) -> None:
    """Make a client called NAME."""
    with open_house() as house:
        client = house.clients.create(CreateClient(name, client_id), operator_call())
    show(client, f"Client {client.name} has the id {client.client_id}.", as_json=as_json)


@clients.command(name="list")
@with_json
def list_(as_json: bool) -> None:
    """Show every client."""
    with open_house() as house:
        found = house.clients.list(operator_call())
    show(found, "\n".join(map(_line, found)) or "There are no clients.", as_json=as_json)


@clients.command()
@click.argument("client", metavar="CLIENT")
@with_json
def disable(client: str, as_json: bool) -> None:
    """Refuse everything of CLIENT (name or id) from now on, and end its logins."""
    _set_active(client, False, as_json)


@clients.command()
@click.argument("client", metavar="CLIENT")
@with_json
def enable(client: str, as_json: bool) -> None:
    """Let CLIENT (name or id) call again."""
    _set_active(client, True, as_json)


def _set_active(client: str, is_active: bool, as_json: bool) -> None:
    with open_house() as house:
        changed = house.clients.set_active(client, is_active, operator_call())
    show(changed, _line(changed), as_json=as_json)


def _line(client: ClientView) -> str:
    return f"{client.client_id}  {'active  ' if client.is_active else 'disabled'}  {client.name}"
