"""`movements` and `payment-codes`: money that moved outside, and the codes that payers pay with."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import client_named, client_option, two_people
from ussd_server.context import operator_context
from ussd_server.services.incoming.messages import SetPrefix
from ussd_server.services.movements.messages import (
    AssignMovement,
    CorrectMovement,
    EndMovement,
    ListMovements,
    MovementUseView,
    MovementView,
    SameMovement,
    UndonePayment,
)
from ussd_server.values import iso_milliseconds, written_amount

_PAGE = 100
_id = click.argument("movement_id", metavar="ID")
_reason = click.option("--reason", required=True, help="Why; the audit trail keeps it.")


@group()
def movements() -> None:
    """Money that moved at a provider or the bank, and what it is used for.

    \b
    ussd-server movements list --held
    ussd-server movements assign ID SCH1042 --by 'Mary Akello' --and 'John Okot'
    """


@movements.command(name="list", example="--held")
@click.option("--held", "is_held", is_flag=True, help="Only what has no use, or is to be given back.")
@click.option(
    "--account", "--provider", type=str.lower, metavar="ACCOUNT", help="Only what moved there; `bank` for the bank."
)
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Only what moved on this day in Kampala.")
@click.option("--all", "shows_all", is_flag=True, help="Show every movement, not only the newest 100.")
def list_(is_held: bool, account: str | None, day: datetime | None, shows_all: bool) -> None:
    """Show movements, newest first, each with up to three codes that its payer may have meant."""
    wanted = ListMovements(is_held=is_held, account=account, day=day.date() if day else None, limit=_PAGE)
    page = services().movements.list(wanted, operator_context())
    listed = list(page.items)
    while page.next_cursor and shows_all:
        page = services().movements.list(replace(wanted, cursor=page.next_cursor), operator_context())
        listed += page.items
    lines = [_line(each) for each in listed]
    if page.next_cursor:
        lines.append("There are more; --all shows them.")
    show_lines(listed, lines, "No movement is held." if is_held else "There is no movement.")


@movements.command(name="show", example=EXAMPLE_ID)
@_id
def show_(movement_id: str) -> None:
    """Show a movement: who told of it and when, and what it was used for."""
    told = services().movements.show(movement_id, operator_context())
    lines = [_line(told)]
    lines += [f"{iso_milliseconds(each.at)}  told by {each.way}" for each in told.told]
    if (place := told.line) is not None:
        lines.append(f"line {place.line} of {place.file_name}, statement {place.statement_id}")
    lines += [f"{iso_milliseconds(each.at)}  {_sentence_of_use(each, each.kind)}" for each in told.history]
    lines += [f"perhaps given back by movement {each}" for each in told.may_give_back]
    show(told, "\n".join(lines))


@movements.command(example=f"{EXAMPLE_ID} SCH1042 --by Ann --and Bob")
@_id
@click.argument("code")
@two_people()
def assign(movement_id: str, code: str, by: str, second: str) -> None:
    """Book a held movement under CODE, whatever amount and time the code says. Two people must agree."""
    movement = services().movement_uses.assign(AssignMovement(movement_id, code, by, second), operator_context())
    assert movement.use is not None
    show(movement, f"{written_amount(movement.amount_cents)} is booked as {movement.use.transaction_id}.")


@movements.command(example=f"{EXAMPLE_ID} {EXAMPLE_ID} --by Ann --and Bob")
@_id
@click.argument("other", required=False)
@two_people()
def same(movement_id: str, other: str | None, by: str, second: str) -> None:
    """Let a held movement be the same money as OTHER. Two people must agree that both are one.

    OTHER is a movement, or a payment of ours that succeeded without a receipt; without it, the one that the list names
    beside the movement. Nothing is booked: the money was credited then.
    """
    request = SameMovement(movement_id, by, second, other)
    movement = services().movement_uses.take_as_same(request, operator_context())
    first = movement.same_as or (movement.use and movement.use.transaction_id)
    show(movement, f"Movement {movement.movement_id} is the same money as {first}.")


@movements.command(name="return", example=f"{EXAMPLE_ID} --reason 'The payer asked for it' --by Ann --and Bob")
@_id
@click.argument("other", required=False, metavar="[OUT]")
@_reason
@two_people()
def return_(movement_id: str, other: str | None, reason: str, by: str, second: str) -> None:
    """Mark a held movement for return. Give it back at the provider; this service sends nothing.

    It stays listed until OUT is named, at once or later: the held movement of the same amount in the other direction
    that gives it back.
    """
    request = EndMovement(movement_id, reason, by, second, other)
    movement = services().movement_uses.mark_returned(request, operator_context())
    by_other = f"given back by movement {other}" if other else "to be given back"
    show(movement, f"{written_amount(movement.amount_cents)} is {by_other}.")


@movements.command(example=f"{EXAMPLE_ID} --reason 'The float was filled up' --by Ann --and Bob")
@_id
@_reason
@two_people()
def own(movement_id: str, reason: str, by: str, second: str) -> None:
    """Call a held movement the operator's own: the float filled up or drawn, or charges. Two people must agree."""
    movement = services().movement_uses.take_as_own(EndMovement(movement_id, reason, by, second), operator_context())
    show(movement, f"{written_amount(movement.amount_cents)} is the operator's own.")


@movements.command(
    example=f"{EXAMPLE_ID} --client acme --payment {EXAMPLE_ID} --reason 'MTN took it back' --by Ann --and Bob"
)
@_id
@client_option
@click.option("--account", help="A subscriber's phone number. Default: the account of the payment, or main.")
@click.option("--payment", metavar="ID", help="The transaction that it corrects. Default: the one that it is told of.")
@_reason
@two_people()
def correct(
    movement_id: str, client: str, account: str | None, payment: str | None, reason: str, by: str, second: str
) -> None:
    """Book a held movement for a client as a correction, without a fee. Two people must agree.

    A payment of ours that it is told of ends as failed, if it has not succeeded. What the account lacks is the client's
    shortfall, which `accounts fill` fills later.
    """
    client_id = client_named(client).client_id
    request = CorrectMovement(movement_id, client_id, reason, by, second, account, payment)
    movement = services().corrections.correct(request, operator_context())
    assert movement.use is not None
    sentence = f"{written_amount(movement.amount_cents)} is booked as correction {movement.use.transaction_id}."
    show(movement, sentence)


@movements.command(example=f"{EXAMPLE_ID} --reason 'Another code was meant' --by Ann --and Bob")
@_id
@_reason
@two_people()
def release(movement_id: str, reason: str, by: str, second: str) -> None:
    """Take back the use of a movement that a notice or operators made: it is held again. Two people must agree.

    A payment or a correction that used it is reversed. What its account lacks is the client's shortfall. Refused while
    refunds of it stand. What was found to be the same as another movement by mistake is held again, too.
    """
    movement = services().releases.release(EndMovement(movement_id, reason, by, second), operator_context())
    show(movement, f"{written_amount(movement.amount_cents)} is held again.")


@movements.command(example=f"{EXAMPLE_ID} --reason 'No statement has it' --by Ann --and Bob")
@click.argument("transaction_id", metavar="TRANSACTION")
@_reason
@two_people()
def unmoved(transaction_id: str, reason: str, by: str, second: str) -> None:
    """Reverse a success of ours that never moved, as a statement that covers it shows. Two people must agree."""
    request = UndonePayment(transaction_id, reason, by, second)
    ended = services().releases.end_unmoved(request, operator_context())
    show(ended, f"{written_amount(ended.amount_cents)} never moved; transaction {ended.transaction_id} is reversed.")


def _line(each: MovementView) -> str:
    name = f"code {each.code!r}" if each.code is not None else f"our {each.reference}" if each.reference else "no code"
    suggested = f"  perhaps {', '.join(each.suggestions)}" if each.suggestions else ""
    side = "from" if each.direction == "in" else "to"
    other = f", with movement {each.counterpart}" if each.counterpart else ""
    state = _sentence_of_use(each.use, each.state + other) if each.use else each.held_because
    return (
        f"{each.movement_id}  {iso_milliseconds(each.created_at)}  {each.account} {', '.join(each.receipts)}  "
        f"{written_amount(each.amount_cents)} {side} {each.phone_number or 'an unknown number'}, {name}: "
        f"{state}{suggested}"
    )


def _sentence_of_use(use: MovementUseView, state: str) -> str:
    transaction = f" {use.transaction_id}" if use.transaction_id else ""
    by = f", {use.by} and {use.and_}" if use.by else ""
    return f"{state}{transaction}{by}" + (f": {use.reason}" if use.reason else "")


@group()
def payment_codes() -> None:
    """Payment codes, which payers type as the reason of a payment."""


@payment_codes.command(example="acme SCH")
@click.argument("client")
@click.argument("letters")
def prefix(client: str, letters: str) -> None:
    """Give CLIENT (name or id) the 2 to 6 LETTERS with which its payment codes begin; none begins another's."""
    request = SetPrefix(client_named(client).client_id, letters)
    view = services().payment_codes.set_prefix(request, operator_context())
    show(view, f"The payment codes of {view.client} begin with {view.prefix}.")
