"""`transactions`: show and refund a payment, and list and end reviews."""

from __future__ import annotations

from dataclasses import asdict

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import Shillings, client_id_of, two_people
from ussd_server.context import operator_context
from ussd_server.services.processing.messages import EndReview, ReviewHistory, ReviewItem
from ussd_server.services.transactions.messages import OperatorRefund, TransactionChange
from ussd_server.values import written_amount

_HOW_TO_SETTLE = (
    "Look at the provider's statement; then two people say what happened: `ussd-server transactions review --settle ID "
    "--as succeeded|failed`. One that has its outcome: `--close ID`."
)


@group()
def transactions() -> None:
    """Show, refund and review payments."""


@transactions.command(name="show", example="order-17 --client acme")
@click.argument("id_or_reference")
@click.option("--client", help="Name or id of the client, where several have the reference.")
def show_(id_or_reference: str, client: str | None) -> None:
    """Show one transaction: where its money is, and its status history."""
    client_id = client_id_of(client)
    item = services().reviews.show(id_or_reference, operator_context(), client_id)
    show(item, _details(item))


@transactions.command(example=f"{EXAMPLE_ID} --amount 2000 --reason 'Twice' --by Ann --and Ben")
@click.argument("transaction_id")
@click.option("--amount", "amount_cents", type=Shillings(), help="Shillings; without it, all that is left.")
@click.option("--reason", required=True, help="Why; the client reads it.")
@two_people("The name of a second operator: two people refund a payment.")
@click.option("--reference", help="Your own name for the refund.")
@click.option(
    "--number",
    type=click.IntRange(1, 9999),
    help="Which refund of this payment by operators it is; a second one of the same amount needs it.",
)
def refund(
    transaction_id: str,
    amount_cents: int | None,
    reason: str,
    by: str,
    second: str,
    reference: str | None,
    number: int | None,
) -> None:
    """Give a succeeded collection back to its payer.

    The same command again is refused, or changes nothing with the same --number or --reference.
    """
    if reference is not None and number is not None:
        raise click.UsageError("Give the refund a --reference or a --number, not both.")
    wanted = OperatorRefund(transaction_id, reason, by, second, amount_cents, reference, number)
    created = services().refunds.create_by_operators(wanted, operator_context())
    made = created.transaction
    verb = "had been accepted before" if created.replayed else "is accepted"
    sentence = f"The refund of {written_amount(made.amount_cents)} {verb}, transaction {made.transaction_id}."
    show({"transaction": made, "replayed": created.replayed}, sentence)


@transactions.command()
@click.option("--settle", metavar="ID", help="Set the outcome of a transaction that no provider confirmed.")
@click.option("--as", "outcome", type=click.Choice(["succeeded", "failed"]), help="With --settle: the outcome.")
@click.option("--receipt", help="With --as succeeded: the provider's receipt.")
@click.option("--no-receipt", "has_no_receipt", is_flag=True, help="With --as succeeded: the provider gave no receipt.")
@click.option("--close", metavar="ID", help="Take a transaction that has its outcome off the list.")
@click.option("--reason", default="", help="How you know; the client reads it.")
@click.option("--by", default="", help="Your name.")
@click.option("--and", "second", default="", help="The name of a second person: two people settle a transaction.")
def review(
    settle: str | None,
    outcome: str | None,
    receipt: str | None,
    has_no_receipt: bool,
    close: str | None,
    reason: str,
    by: str,
    second: str,
) -> None:
    """List the transactions that an operator must review, or end the review of one.

    Settling moves or releases the money. Check the provider's own statement first.

    \b
    ussd-server transactions review --settle ID --as succeeded --receipt R --reason "by telephone" --by NAME --and NAME
    """
    if settle and close:
        raise click.UsageError("Settle one transaction or close one, not both.")
    if bool(settle) != bool(outcome):
        raise click.UsageError("--settle ID and --as succeeded|failed go together.")
    if (outcome == "succeeded") != (bool(receipt) != has_no_receipt) or (receipt and has_no_receipt):
        raise click.UsageError("--as succeeded takes one of --receipt R and --no-receipt; nothing else takes them.")
    if (transaction_id := settle or close) is None:
        waiting = services().reviews.list(operator_context())
        lines = [*map(_line, waiting), _HOW_TO_SETTLE] if waiting else []
        show_lines(waiting, lines, "No transaction needs a review.")
        return
    has_succeeded = None if outcome is None else outcome == "succeeded"
    item = services().reviews.end(
        EndReview(transaction_id, reason, by, second, has_succeeded, receipt), operator_context()
    )
    show(item, _details(item))


def _line(item: ReviewItem) -> str:
    seen = item.transaction
    return (
        f"{seen.transaction_id}  {seen.type:<12}  {written_amount(seen.amount_cents):>16}  {seen.status:<10}  "
        f"{seen.provider or '-':<8}  since {item.opened_at:%Y-%m-%d %H:%M}  {item.reason}"
    )


def _detail(change: TransactionChange) -> str:
    details = {name: value for name, value in asdict(change.detail).items() if value is not None}
    return ", ".join(f"{name} {value}" for name, value in details.items())


def _details(item: ReviewHistory) -> str:
    view = item.transaction
    lines = [
        f"{view.transaction_id}  {view.type} of {written_amount(view.amount_cents)}, {view.status}",
        *([view.explanation] if view.explanation else []),
        f"client {item.client_id}, reference {view.reference}",
        f"{item.connection or view.provider or 'no provider'}, our name there {view.provider_reference}, "
        f"their number {view.provider_transaction_id}",
        *(
            f"  {change.created_at:%Y-%m-%d %H:%M:%S}  {change.status:<10}  {change.source:<8}  {_detail(change)}"
            for change in view.events
        ),
    ]
    if item.reason is not None:
        ending = f"ended {item.closed_at:%Y-%m-%d %H:%M}: {item.note}" if item.closed_at else "open"
        lines.append(f"review since {item.opened_at:%Y-%m-%d %H:%M}, {item.reason}; {ending}")
    return "\n".join(line.rstrip() for line in lines)
