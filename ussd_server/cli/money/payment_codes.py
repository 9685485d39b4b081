"""`payment-codes`: the letters with which the payment codes of clients begin."""

from __future__ import annotations

import click

from ussd_server.cli import open_services, show, with_json
from ussd_server.cli.names import client_named
from ussd_server.context import operator_context
from ussd_server.services.incoming.messages import SetPrefix


@click.group()
def payment_codes() -> None:
    """Payment codes, which payers type as the reason of a payment."""


@payment_codes.command()
@click.argument("client", metavar="CLIENT")
@click.argument("letters", metavar="LETTERS")
@with_json
def prefix(client: str, letters: str, as_json: bool) -> None:
    """Give CLIENT (name or id) the 2 to 6 LETTERS with which its payment codes begin; none begins another's."""
    with open_services() as services:
        request = SetPrefix(client_named(services, client).client_id, letters)
        given = services.payment_codes.set_prefix(request, operator_context())
    show(given, f"The payment codes of {given.client} begin with {given.prefix}.", as_json=as_json)
