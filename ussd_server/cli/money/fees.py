"""`fees`: what clients pay for their transactions."""

from __future__ import annotations

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show, show_lines
from ussd_server.cli.names import KnownName, Shillings, client_named, client_option
from ussd_server.context import operator_context
from ussd_server.services.accounts.fees import list_fees, set_fee
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.values import written_amount

_TYPES = ["collection", "disbursement", "transfer", "refund"]


@group()
def fees() -> None:
    """What clients pay for their transactions."""


@fees.command(name="set", example="--client acme --type collection --fixed 200 --share-basis-points 150")
@client_option
@click.option("--type", "kind", required=True, type=KnownName(_TYPES))
@click.option("--fixed", "fixed_cents", default=0, type=Shillings(least_cents=0), help="Shillings for any amount.")
@click.option(
    "--share-basis-points", default=0, type=click.IntRange(0, 10_000), help="150 is 1.5 percent of the amount."
)
def set_(client: str, kind: str, fixed_cents: int, share_basis_points: int) -> None:
    """Agree a fee for the transactions that are created from now on; zeros end it."""
    client_id = client_named(client).client_id
    terms = FeeTerms(client_id, TransactionType(kind), fixed_cents, share_basis_points)
    agreed = set_fee(terms, operator_context(), services().clock.now())
    show(agreed, _line(agreed))


@fees.command(name="list")
def list_() -> None:
    """Show what was agreed."""
    services()  # opens the database
    agreed = list_fees(operator_context())
    show_lines(agreed, map(_line, agreed), "No fees were agreed.")


def _line(fee: FeeTerms) -> str:
    share = f"{fee.share_basis_points / 100:g}"
    return f"{fee.client_id}  {fee.type:<12}  {written_amount(fee.fixed_cents)} and {share} percent"
