"""`incoming` and `payment-codes`: payments that payers make by themselves, and the codes that they pay with."""

from __future__ import annotations

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import client_named, two_people
from ussd_server.context import operator_context
from ussd_server.services.incoming.messages import AssignIncoming, IncomingView, ReturnIncoming, SameIncoming, SetPrefix
from ussd_server.values import iso_milliseconds, written_amount
from ussd_server.wire import ListPage

_PAGE = 100
_id = click.argument("incoming_id", metavar="ID")


@group()
def incoming() -> None:
    """Payments that payers made by themselves and that fit no payment code, amount or client.

    \b
    ussd-server incoming list
    ussd-server incoming assign ID SCH1042 --by 'Mary Akello' --and 'John Okot'
    """


@incoming.command(name="list")
@click.option("--all", "shows_all", is_flag=True, help="Show every payment, not only the newest 100.")
def list_(shows_all: bool) -> None:
    """Show held payments, newest first, each with up to three codes that the payer may have meant."""
    page = services().held_payments.list(ListPage(limit=_PAGE), operator_context())
    payments = list(page.items)
    while page.next_cursor and shows_all:
        page = services().held_payments.list(ListPage(cursor=page.next_cursor, limit=_PAGE), operator_context())
        payments += page.items
    lines = [_line(each) for each in payments]
    if page.next_cursor:
        lines.append("There are more; --all shows them.")
    show_lines(payments, lines, "No payment is held.")


@incoming.command(example=f"{EXAMPLE_ID} SCH1042 --by Ann --and Bob")
@_id
@click.argument("code")
@two_people()
def assign(incoming_id: str, code: str, by: str, second: str) -> None:
    """Book a held payment under CODE, whatever amount and time the code says. Two people must agree."""
    booked = services().held_payments.assign(AssignIncoming(incoming_id, code, by, second), operator_context())
    show(booked, f"{written_amount(booked.amount_cents)} is booked as {booked.transaction_id}.")


@incoming.command(example=f"{EXAMPLE_ID} --by Ann --and Bob")
@_id
@two_people()
def same(incoming_id: str, by: str, second: str) -> None:
    """Give the receipt of a held payment to the collection that it waits for. Two people must agree that both are one.

    The collection succeeded without a receipt. Nothing is booked: its money was credited then.
    """
    request = SameIncoming(incoming_id, by, second)
    taken = services().held_payments.take_as_same(request, operator_context())
    show(taken, f"Receipt {taken.provider_transaction_id} is that of transaction {taken.transaction_id}.")


@incoming.command(name="return", example=f"{EXAMPLE_ID} --reason 'The payer asked for it' --by Ann --and Bob")
@_id
@click.option("--reason", required=True, help="Why it is given back.")
@two_people()
def return_(incoming_id: str, reason: str, by: str, second: str) -> None:
    """Mark a held payment for return. Give it back at the provider; this service sends nothing."""
    request = ReturnIncoming(incoming_id, reason, by, second)
    marked = services().held_payments.mark_returned(request, operator_context())
    show(marked, f"{written_amount(marked.amount_cents)} is marked for return.")


def _line(each: IncomingView) -> str:
    typed = f"code {each.code!r}" if each.code is not None else "no code"
    suggested = f"  perhaps {', '.join(each.suggestions)}" if each.suggestions else ""
    return (
        f"{each.incoming_id}  {iso_milliseconds(each.received_at)}  {each.provider} {each.provider_transaction_id}  "
        f"{written_amount(each.amount_cents)} from {each.phone_number or 'an unknown payer'}, {typed}: "
        f"{each.held_because}{suggested}"
    )


@group()
def payment_codes() -> None:
    """Payment codes, which payers type as the reason of a payment."""


@payment_codes.command(example="acme SCH")
@click.argument("client")
@click.argument("letters")
def prefix(client: str, letters: str) -> None:
    """Give CLIENT (name or id) the 2 to 6 LETTERS with which its payment codes begin; none begins another's."""
    request = SetPrefix(client_named(client).client_id, letters)
    code_prefix = services().payment_codes.set_prefix(request, operator_context())
    show(code_prefix, f"The payment codes of {code_prefix.client} begin with {code_prefix.prefix}.")
