"""`keys`: the API keys of clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ussd_server.cli import services
from ussd_server.cli.clients.seeds import ImportedRow, Row, seed_rows, text_of
from ussd_server.cli.commands import EXAMPLE_ID, group, show, show_lines
from ussd_server.cli.names import Moment, Shillings, client_named, client_option, nearest, sample_or_file_argument
from ussd_server.context import operator_context
from ussd_server.services.clients.keys.fields import joined_scopes
from ussd_server.services.clients.keys.messages import (
    RESOURCES,
    SCOPES,
    ApiKeySummary,
    CreateApiKey,
    ImportApiKey,
    UpdateApiKey,
)
from ussd_server.services.request_log.messages import ListRequests
from ussd_server.services.search.messages import Search
from ussd_server.values import iso_milliseconds, moment_of, shillings

_CLEARED = {"allow": "allowed_addresses", "daily-limit": "daily_limit_cents"}


def _read_scopes(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    try:
        return None if text is None else tuple(joined_scopes(text.split()).split())
    except ValueError:
        unknown = next((scope for scope in (text or "").split() if scope not in SCOPES), "")
        raise click.BadParameter(
            f"{unknown!r} is no scope.{nearest(unknown, SCOPES)} Each must be one of {', '.join(RESOURCES)}, a colon, "
            "and one of read, write, *; or transactions:send or payouts:approve."
        ) from None


def _bounds(command: Any) -> Any:
    """The options of a key's name and bounds."""
    options = (
        click.option("--name", help="What people call it, up to 100 characters."),
        click.option(
            "--scopes",
            metavar="LIST",
            callback=_read_scopes,
            help="Such as 'ussd:* balance:read'; a new key without it may do everything.",
        ),
        click.option("--expires-at", type=Moment(or_time=True), help="UTC; a new key without it never expires."),
        click.option(
            "--allow",
            "allowed_addresses",
            multiple=True,
            metavar="ADDRESS",
            help="An address or a network from which it may be used; repeat it for more.",
        ),
        click.option(
            "--daily-limit",
            "daily_limit_cents",
            type=Shillings(),
            help="What it may pay out, refund and approve in a day of Kampala.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@group()
def keys() -> None:
    """API keys of clients."""


@keys.command(example="--client acme --scopes 'transactions:* balance:read'")
@client_option
@_bounds
def create(client: str, **bounds: Any) -> None:
    """Make a key and show its secret."""
    owner = client_named(client)
    request = CreateApiKey(**_bounds_of(bounds, services().clock.now()))
    key = services().api_keys.create(request, operator_context(owner.client_id))
    (row,) = (each for each in _records(owner.client_id) if each.id == key.id)
    text = f"{_line(row)}\nx-api-key: {key.apikey}\nx-api-secret: {key.apisecret}"
    show(asdict(key), text)


@keys.command(example=f"{EXAMPLE_ID} --scopes 'transactions:read' --daily-limit 2000000")
@click.argument("key")
@_bounds
@click.option(
    "--clear",
    multiple=True,
    type=click.Choice(["name", "scopes", "expires-at", "allow", "daily-limit"]),
    help="End a bound; repeat it for more. Without scopes a key may do everything.",
)
def change(key: str, clear: tuple[str, ...], **bounds: Any) -> None:
    """Change KEY (its id or apikey) without a new secret, for every call from now on."""
    row = services().key_reader.find_any(key, operator_context())
    context = operator_context(row.client_id)
    cleared = {_CLEARED.get(each, each.replace("-", "_")): None for each in clear}
    services().api_keys.change(UpdateApiKey(row.id, **cleared | _bounds_of(bounds, services().clock.now())), context)
    changed = services().key_reader.find_any(row.id, operator_context())
    show(_facts(changed), _line(changed))


@keys.command(name="list", example="--client acme")
@client_option
@click.option("--show-secrets", is_flag=True, help="Print the secrets too.")
def list_(client: str, show_secrets: bool) -> None:
    """Show the keys of a client."""
    owner = client_named(client)
    records = _records(owner.client_id)
    keys_with_secrets = services().api_keys.list(operator_context(owner.client_id)) if show_secrets else ()
    secrets = {key.id: key.apisecret for key in keys_with_secrets}
    lines = [f"{_line(key)}  {secrets[key.id]}" if show_secrets else _line(key) for key in records]
    facts = [_facts(key) | ({"apisecret": secrets[key.id]} if show_secrets else {}) for key in records]
    show_lines(facts, lines, "There are no keys.")


@keys.switch(
    disable="Refuse KEY (its id or apikey) from now on.",
    enable="Accept KEY (its id or apikey) again.",
    example=EXAMPLE_ID,
)
@click.argument("key")
def set_active(key: str, is_active: bool) -> None:
    services().api_keys.set_active(key, is_active, operator_context())
    row = services().key_reader.find_any(key, operator_context())
    show(_facts(row), _line(row))


@keys.command(example=EXAMPLE_ID)
@click.argument("key")
def explain(key: str) -> None:
    """Say what would happen to a call with KEY (its id or apikey) now, and why. Counts no call."""
    explanation = services().key_explanations.explain(key, operator_context())
    facts = asdict(explanation)
    show({"verdict": facts.pop("answer"), **facts}, f"{explanation.answer}: {explanation.sentence}")


@keys.command(example=f"{EXAMPLE_ID} --since 2026-11-20")
@click.argument("key")
@click.option("--limit", type=click.IntRange(1, 100), default=50, help="The most requests. Default: 50.")
@click.option("--since", type=Moment(or_time=True), help="UTC; only requests from then on.")
def requests(key: str, limit: int, since: datetime | None) -> None:
    """Show what KEY (its id or apikey) called: refused calls and calls that changed something, newest first."""
    hits = services().search.find(Search(key), operator_context()).items
    key_id = next((hit.id for hit in hits if hit.kind == "key"), None)
    if key_id is None:
        raise click.ClickException(f"There is no key {key!r}.")
    context = operator_context(services().search.owner_of("key", key_id, operator_context()))
    items = services().request_log.list(ListRequests(key_id=key_id, from_at=since, limit=limit), context).items
    lines = [
        f"{iso_milliseconds(each.at)}  {each.status} {each.code}  {each.method} {each.path}  {each.address}  "
        f"{each.took_ms} ms  {each.request_id}"
        for each in items
    ]
    show_lines(items, lines, "No request of this key was refused or changed something.")


@keys.command(example="keys.csv")
@sample_or_file_argument
def seed(file: Path | None) -> None:
    """Take over the keys that FILE lists, a JSON array of objects or a CSV file.

    Without FILE, a sandbox gets the shipped list, whose secrets are printed; `clients seed` makes its clients.

    \b
    client      name or id of a client that exists (required)
    apikey      8 to 64 letters and digits (required)
    apisecret   16 to 128 printable ASCII characters without spaces (required)
    scopes      such as "ussd:* balance:read"; without it, everything
    expires_at  such as 2027-01-31T00:00:00Z; without it, never

    A second run changes nothing but scopes and expiry. A key that was deleted, that belongs to another client or that
    has another secret here is refused, and the exit code is 1.
    """
    required, optional = ["client", "apikey", "apisecret"], ["scopes", "expires_at"]
    seed_rows(file, "keys.csv", required, optional, _import_row, printed_column="apisecret")


def _import_row(row: Row) -> ImportedRow:
    client = services().clients.find(text_of(row, "client"), operator_context())
    scopes = row.get("scopes")
    if isinstance(scopes, str):
        scopes = scopes.split()
    if scopes is not None and not (isinstance(scopes, list) and all(isinstance(scope, str) for scope in scopes)):
        raise ValueError("scopes: Must be a string or an array of strings.")
    request = ImportApiKey(
        client_id=client.client_id,
        apikey=text_of(row, "apikey"),
        apisecret=text_of(row, "apisecret"),
        scopes=None if scopes is None else tuple(scopes),
        expires_at=_moment(text_of(row, "expires_at")),
    )
    key = services().api_keys.import_key(request, operator_context())
    return ImportedRow(key.outcome, {"client": client.name, "apikey": key.apikey, "id": key.api_key_id})


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    moment = moment_of(text)
    if moment is None:
        raise ValueError("expires_at: Must be an ISO 8601 time with its offset, such as 2027-01-31T00:00:00Z.")
    return moment


def _bounds_of(bounds: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The bounds that the options give."""
    values = {name: value for name, value in bounds.items() if value not in (None, ())}
    if "expires_at" in values and values["expires_at"] <= now:
        past = f"{values['expires_at']:%Y-%m-%d %H:%M} is past"
        raise click.BadParameter(
            f"must be in the future; {past}, now is {now:%Y-%m-%d %H:%M} UTC.", param_hint="--expires-at"
        )
    return values


def _records(client_id: str) -> list[ApiKeySummary]:
    """The keys of a client, oldest first."""
    return list(reversed(services().key_reader.list(operator_context(client_id))))


def _facts(key: ApiKeySummary) -> dict[str, Any]:
    """A key without its secret, by the names of the API."""
    facts = {name: value for name, value in asdict(key).items() if name != "is_expired" and not name.endswith("_cents")}
    limit_cents = key.daily_limit_cents
    return facts | {
        "is_active": int(key.is_active),
        "state": key.state,
        "daily_limit": None if limit_cents is None else shillings(limit_cents),
    }


def _line(key: ApiKeySummary) -> str:
    name = f"  {key.name}" if key.name else ""
    return f"{key.id}  {key.state:8}  {key.apikey}  {key.scopes or 'everything'}{name}"
