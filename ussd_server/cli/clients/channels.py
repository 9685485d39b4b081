"""`channels`: the connections of gateways."""

from __future__ import annotations

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import KnownName, client_id_of
from ussd_server.context import operator_context
from ussd_server.gateways import ADAPTERS
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


@channels.command(example=EXAMPLE_ID)
@click.argument("channel")
def disable(channel: str) -> None:
    """Answer on the path of CHANNEL (its id) as if there were none."""
    _set_active(channel, False)


@channels.command(example=EXAMPLE_ID)
@click.argument("channel")
def enable(channel: str) -> None:
    """Answer on the path of CHANNEL (its id) again."""
    _set_active(channel, True)


def _set_active(channel_id: str, is_active: bool) -> None:
    changed = services().channels.set_active(channel_id, is_active, operator_context())
    show(changed, _line(changed))


def _line(channel: ChannelView) -> str:
    state = "active  " if channel.is_active else "disabled"
    return f"{channel.channel_id}  {state}  {', '.join(channel.codes) or 'every code'}  {channel.gateway_path}"
