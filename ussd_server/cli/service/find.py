"""`find`: what a value names, over all clients."""

from __future__ import annotations

import click

from ussd_server.cli import services
from ussd_server.cli.commands import command, show_lines
from ussd_server.context import operator_context
from ussd_server.services.search.messages import Search, SearchHit


@command(example="+256772123456")
@click.argument("text")
def find(text: str) -> None:
    """Find TEXT over all clients: a phone number, reference, receipt or id, also of a request.

    Whole values only, 3 to 64 characters; at most 50 results.
    """
    if not 3 <= len(text) <= 64:
        raise click.UsageError("TEXT must be 3 to 64 characters long.")
    found = services().search.find(Search(text), operator_context())
    show_lines(found, map(_lines, found.items), "Nothing was found.")


def _lines(hit: SearchHit) -> str:
    return (
        f"{hit.kind:<11}  {hit.id}  {hit.created_at:%Y-%m-%d %H:%M}  {hit.client or '-'}\n"
        f"             {hit.title}\n             {hit.sentence}"
    )
