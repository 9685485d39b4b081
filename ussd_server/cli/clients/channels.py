"""`channels` and `codes`: the connections of gateways, and the service codes that phones dial."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any, TextIO

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import KnownName, among, client_id_of, client_named, client_option, password_of
from ussd_server.context import RequestContext, operator_context
from ussd_server.gateways import ADAPTERS
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.menus.messages import AssignCode, BindCode, CodeView
from ussd_server.services.ussd.messages import ChannelView, CreateChannel, SmppOptions
from ussd_server.smpp.dialects import DIALECTS

# A file of certificates; a longer one is refused.
_LONGEST_AUTHORITY = 65_536


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
@click.option("--url", metavar="URL", help="SMPP: smpp://HOST:PORT, or smpps://HOST:PORT for TLS.")
@click.option("--system-id", metavar="NAME", help="SMPP: the name that the operator gave us.")
@click.option("--password-stdin", is_flag=True, help="SMPP: read the password from standard input.")
@click.option("--dialect", default="default", metavar="DIALECT", help=f"SMPP: {', '.join(DIALECTS)}, or parts: end=32.")
@click.option("--binds", default=2, type=click.IntRange(1, 16), help="SMPP: binds of each process; left out, 2.")
@click.option(
    "--window",
    default=10,
    type=click.IntRange(1, 1000),
    help="SMPP: screens without an answer on a bind; left out, 10.",
)
@click.option("--ca", type=click.File(), help="SMPP: the operator's own certificate authority (PEM).")
def create(
    client: str | None,
    adapter: str,
    codes: tuple[str, ...],
    name: str,
    cumulative: bool | None,
    septets: int | None,
    ucs2: int | None,
    keep_letters: bool,
    **smpp: Any,
) -> None:
    """Make a channel and print its gateway path, which is a credential. For SMPP print its id: it has no path."""
    client_id = client_id_of(client)
    options = _smpp_options(**smpp) if adapter == "smpp" else None
    request = CreateChannel(adapter, client_id, name, codes, cumulative, not keep_letters, septets, ucs2, options)
    channel = services().channels.create(request, operator_context())
    show(channel, channel.gateway_path or channel.channel_id)


def _smpp_options(
    url: str | None,
    system_id: str | None,
    password_stdin: bool,
    dialect: str,
    binds: int,
    window: int,
    ca: TextIO | None,
) -> SmppOptions:
    if not (url and system_id and password_stdin):
        raise click.UsageError("An SMPP channel needs --url, --system-id and --password-stdin.")
    authority = None if ca is None else ca.read(_LONGEST_AUTHORITY + 1)
    return SmppOptions(url, system_id, password_of(password_stdin), dialect, binds, window, authority)


@channels.command(name="list")
def list_() -> None:
    """Show every channel with its gateway path, or with its operator and the state of each bind."""
    channels = services().channels.list(operator_context())
    show_lines(channels, map(_line, channels), "There are no channels.")


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
    way = channel.gateway_path or f"{channel.smpp_url or 'SMPP'}  {_binds_line(channel)}"
    return f"{channel.channel_id}  {state}  {', '.join(channel.codes) or 'every code'}  {way}"


def _binds_line(channel: ChannelView) -> str:
    """Each bind by its process, and why it is down; the process by its machine and number."""
    binds = (
        f"{bind.process.rpartition(':')[0]}/{bind.number} {bind.state}{f' ({bind.reason})' if bind.reason else ''}"
        for bind in channel.binds
    )
    return ", ".join(binds) or "no process serves it"


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
    service_code = services().channels.assign_code(AssignCode(code, owner.client_id), operator_context())
    if menu:
        confirm_taking(service_code, menu, yes=yes)
        context = operator_context(owner.client_id)
        with among_menus(menu, context):
            service_code = services().menus.bind_code(BindCode(code, menu), context)
    show(service_code, _code_line(service_code, owner))


@codes.command(name="list", example="--client acme")
@client_option
def list_codes(client: str) -> None:
    """Show a client's codes and the menus that answer them."""
    owner = client_named(client)
    codes = services().menus.codes(operator_context(owner.client_id))
    show_lines(codes, (_code_line(each, owner) for each in codes), "The client has no codes.")


def _code_line(code: CodeView, owner: ClientView) -> str:
    return f"{code.service_code} belongs to {owner.name}; " + (
        f"the menu {code.menu_id} answers it." if code.menu_id else "no menu answers it yet."
    )
