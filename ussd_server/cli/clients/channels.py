"""`channels` and `codes`: the connections of gateways, and the service codes that phones dial."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import KnownName, among, client_id_of, client_named, client_option
from ussd_server.context import RequestContext, operator_context
from ussd_server.gateways import ADAPTERS
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.menus.messages import AssignCode, BindCode, CodeView
from ussd_server.services.ussd.messages import ChannelView, CreateChannel


@group()
def channels() -> None:
    """Connections of gateways to clients, each with a path of its own."""


@channels.command(example="--client acme --adapter africastalking --code '*384*123#'")
@click.option("--client", metavar="CLIENT", help="Whose codes it carries (name or id); left out, those of all clients.")
@click.option(
    "--adapter", required=True, type=KnownName(ADAPTERS), help="The gateway's format; `at` is Africa's Talking."
)
@click.option("--code", "codes", multiple=True, metavar="CODE", help="A code it may carry; left out, every code.")
@click.option("--name", default="", help="What you call it.")
@click.option(
    "--cumulative/--single", default=None, help="Whether texts hold the whole history, against the documents."
)
@click.option(
    "--septets", type=click.IntRange(80, 182), help="Septets a screen may have, when fewer than the menu says."
)
@click.option("--ucs2", type=click.IntRange(40, 80), help="Characters a UCS-2 screen may have.")
@click.option("--keep-letters", is_flag=True, help="Send letters outside GSM-7 as they are.")
def create(
    client: str | None,
    adapter: str,
    codes: tuple[str, ...],
    name: str,
    cumulative: bool | None,
    septets: int | None,
    ucs2: int | None,
    keep_letters: bool,
) -> None:
    """Make a channel and print its gateway path, which is a credential."""
    client_id = client_id_of(client)
    request = CreateChannel(adapter, client_id, name, codes, cumulative, not keep_letters, septets, ucs2)
    channel = services().channels.create(request, operator_context())
    show(channel, channel.gateway_path)


@channels.command(name="list")
def list_() -> None:
    """Show every channel with its gateway path."""
    found = services().channels.list(operator_context())
    show_lines(found, map(_line, found), "There are no channels.")


@channels.switch(
    disable="Answer on the path of CHANNEL (its id) as if there were none.",
    enable="Answer on the path of CHANNEL (its id) again.",
    example=EXAMPLE_ID,
)
@click.argument("channel")
def set_active(channel: str, is_active: bool) -> None:
    changed = services().channels.set_active(channel, is_active, operator_context())
    show(changed, _line(changed))


def _line(channel: ChannelView) -> str:
    state = "active  " if channel.is_active else "disabled"
    return f"{channel.channel_id}  {state}  {', '.join(channel.codes) or 'every code'}  {channel.gateway_path}"


yes_option = click.option("--yes", is_flag=True, help="Do not ask before the code is taken from another menu.")


def confirm_taking(code: CodeView, menu_id: str, *, yes: bool) -> None:
    """Ask before a code that another menu answers is given to `menu_id`. Raises Abort, or ClickException unattended."""
    if yes or code.menu_id in (None, menu_id):
        return
    question = f"The menu {code.menu_id} answers {code.service_code} now. Let {menu_id} answer it instead?"
    if not sys.stdin.isatty():
        raise click.ClickException(f"{question} Say so with --yes.")
    click.confirm(question, abort=True, err=True)


def among_menus(menu_id: str, context: RequestContext) -> AbstractContextManager[None]:
    """Name the client's menus where the block does not find `menu_id`."""
    return among("menu", menu_id, lambda: (each.menu_id for each in services().menus.list(context)))


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
        with among_menus(menu, context):
            given = services().menus.bind_code(BindCode(code, menu), context)
    show(given, _code_line(given, owner))


@codes.command(name="list", example="--client acme")
@client_option
def list_codes(client: str) -> None:
    """Show a client's codes and the menus that answer them."""
    owner = client_named(client)
    found = services().menus.codes(operator_context(owner.client_id))
    show_lines(found, (_code_line(each, owner) for each in found), "The client has no codes.")


def _code_line(code: CodeView, owner: ClientView) -> str:
    return f"{code.service_code} belongs to {owner.name}; " + (
        f"the menu {code.menu_id} answers it." if code.menu_id else "no menu answers it yet."
    )
