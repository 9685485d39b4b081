"""`codes`: the service codes that phones dial."""

from __future__ import annotations

import sys

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show, show_lines
from ussd_server.cli.names import among, client_named, client_option
from ussd_server.context import operator_context
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.menus.messages import AssignCode, BindCode, CodeView

yes_option = click.option("--yes", is_flag=True, help="Do not ask before the code is taken from another menu.")


def confirm_taking(code: CodeView, menu_id: str, *, yes: bool) -> None:
    """Ask before a code that another menu answers is given to `menu_id`. Raises Abort, or ClickException unattended."""
    if yes or code.menu_id in (None, menu_id):
        return
    question = f"The menu {code.menu_id} answers {code.service_code} now. Let {menu_id} answer it instead?"
    if not sys.stdin.isatty():
        raise click.ClickException(f"{question} Say so with --yes.")
    click.confirm(question, abort=True, err=True)


@group()
def codes() -> None:
    """Service codes and whose they are."""


@codes.command(example="'*384*123#' --client acme --menu shop")
@click.argument("code")
@client_option
@click.option("--menu", metavar="MENU", help="Which of the client's menus answers it.")
@yes_option
def assign(code: str, client: str, menu: str | None, yes: bool) -> None:
    """Give CODE, such as '*384*123#', to a client."""
    owner = client_named(client)
    given = services().channels.assign_code(AssignCode(code, owner.client_id), operator_context())
    if menu:
        confirm_taking(given, menu, yes=yes)
        context = operator_context(owner.client_id)
        with among("menu", menu, lambda: (each.menu_id for each in services().menus.list(context))):
            given = services().menus.bind_code(BindCode(code, menu), context)
    show(given, _line(given, owner))


@codes.command(name="list", example="--client acme")
@client_option
def list_(client: str) -> None:
    """Show a client's codes and the menus that answer them."""
    owner = client_named(client)
    found = services().menus.codes(operator_context(owner.client_id))
    show_lines(found, (_line(each, owner) for each in found), "The client has no codes.")


def _line(code: CodeView, owner: ClientView) -> str:
    return f"{code.service_code} belongs to {owner.name}; " + (
        f"the menu {code.menu_id} answers it." if code.menu_id else "no menu answers it yet."
    )
