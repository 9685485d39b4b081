"""`subscribers` and `find`: what is known about one phone number, or about any value."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import click

from ussd_server.cli import services
from ussd_server.cli.commands import command, group, show, show_lines
from ussd_server.cli.names import client_named, two_people
from ussd_server.context import operator_context
from ussd_server.services.search.messages import Search, SearchHit
from ussd_server.services.subscribers.messages import ErasePersonalData, GetHistory, History, HistoryEntry
from ussd_server.values import counted, iso_milliseconds

_number = click.argument("number", metavar="NUMBER")


@group()
def subscribers() -> None:
    """Show, export and erase what is known about a phone number."""


@dataclass(frozen=True, slots=True)
class _EntryOfClient(HistoryEntry):
    """One thing that happened between a client and a phone number."""

    client: str


@subscribers.command(name="show", example="+256772123456")
@_number
@click.option("--client", metavar="CLIENT", help="Only what happened with this client (name or id).")
@click.option("--limit", type=click.IntRange(1, 100), default=50, help="The most entries. Default: 50.")
def show_(number: str, client: str | None, limit: int) -> None:
    """Show what happened with NUMBER, newest first, of all clients or of CLIENT."""
    request, histories = GetHistory(number, limit=limit), services().subscriber_history
    if client is None:
        entries = histories.of_all_clients(request, operator_context())
        names = services().clients.names({client_id for client_id, _ in entries}, operator_context())
    else:
        of = client_named(client)
        entries = [(of.client_id, entry) for entry in histories.get(request, operator_context(of.client_id)).items]
        names = {of.client_id: of.name}
    newest = tuple(_EntryOfClient(**asdict(entry), client=names[client_id]) for client_id, entry in entries)
    lines = [
        f"{iso_milliseconds(each.at)}  {each.client}  {'POSSIBLE DOUBLE  ' if each.possible_double else ''}"
        f"{each.title}. {each.sentence}"
        for each in newest
    ]
    show_lines(History(newest, None), lines, "Nothing is known about this number.")


@subscribers.command(example="+256772123456 > subscriber.json")
@_number
def export(number: str) -> None:
    """Print all that is held about NUMBER as JSON, for the person whose number it is. Secrets are left out."""
    data = services().personal_data.export(number, operator_context())
    document = {"phone_number": data.phone_number, **data.held}
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


@subscribers.command(example="+256772123456 --reason 'Asked on 2026-11-20' --by Ann --and Ben")
@_number
@click.option("--reason", required=True, help="Why, such as the request of the subscriber with its date.")
@two_people()
def erase(number: str, reason: str, by: str, second: str) -> None:
    """Remove sessions, names, the language and logged bodies of NUMBER; records of payments are kept."""
    request = ErasePersonalData(number, by, second, reason)
    erased = services().personal_data.erase(request, operator_context())
    counts = [f"{counted(count, 'row')} of {name} removed" for name, count in erased.removed.items()]
    counts += [f"{counted(count, 'row')} of {name} kept" for name, count in erased.kept.items()]
    show(erased, f"{', '.join(counts)}. {erased.why_kept}")


@command(example="+256772123456")
@click.argument("text")
def find(text: str) -> None:
    """Find TEXT over all clients: a phone number, reference, receipt or id, also of a request.

    Whole values only, 3 to 64 characters; at most 50 results.
    """
    if not 3 <= len(text) <= 64:
        raise click.UsageError("TEXT must be 3 to 64 characters long.")
    hits = services().search.find(Search(text), operator_context())
    show_lines(hits, map(_hit_lines, hits.items), "Nothing was found.")


def _hit_lines(hit: SearchHit) -> str:
    return (
        f"{hit.kind:<11}  {hit.id}  {hit.created_at:%Y-%m-%d %H:%M}  {hit.client or '-'}\n"
        f"             {hit.title}\n             {hit.sentence}"
    )
