"""`webhooks`: the webhooks of a client, events that are sent again, and events for a program under development."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from ussd_server.cli import services
from ussd_server.cli.clients.local_webhook import LocalWebhook
from ussd_server.cli.commands import group, show, show_lines, wants_json
from ussd_server.cli.names import KnownName, client_option, context_of, period_options
from ussd_server.context import RequestContext
from ussd_server.services.webhooks.messages import EVENT_TYPES, EventView, ListEvents, RedeliverEvents, WebhookView

_Command = TypeVar("_Command", bound=Callable[..., Any])
_SECONDS_BETWEEN_LOOKS = 0.5
# An event may be committed a little later than another one with a later id.
_LATEST_COMMIT = timedelta(seconds=30)


def _receiver_options(command: _Command) -> _Command:
    """Add `--to` and `--secret`, which say where events go and what signs them."""
    signs = "The secret that signs them: whsec_ and Base64. Default: a new one, which is printed."
    command = click.option("--secret", metavar="SECRET", help=signs)(command)
    return click.option("--to", "url", required=True, metavar="URL", help="The address of your program.")(command)


@group()
def webhooks() -> None:
    """List the webhooks of a client, and send events again."""


@webhooks.command(name="list", example="--client acme")
@client_option
def list_(client: str) -> None:
    """Show the webhooks of a client, and since when deliveries to them fail."""
    webhooks = services().webhooks.list(context_of(client)).items
    show_lines(webhooks, map(_line, webhooks), "The client has no webhooks.")


@webhooks.command(example="--client acme --from 2026-11-20T08:00:00Z --to 2026-11-20T10:00:00Z")
@click.argument("event_id", metavar="[EVENT]", required=False)
@client_option
@period_options
@click.option("--type", "event_type", metavar="TYPE", help="Only events of this type, such as transaction.succeeded.")
@click.option("--only", type=click.Choice(["failed"]), help="Only events that an active webhook has not accepted.")
def redeliver(
    event_id: str | None,
    client: str,
    from_at: datetime | None,
    to_at: datetime | None,
    event_type: str | None,
    only: str | None,
) -> None:
    """Send EVENT (its id) again, or the events of a period, at most 1,000, in their order.

    Each goes to every webhook of the client that takes its type.
    """
    if (event_id is None) == (from_at is None or to_at is None) or (event_id and (event_type or only)):
        raise click.UsageError("Give the id of an event, or a period with --from and --to.")
    context = context_of(client)
    if event_id is not None:
        sent = services().events.redeliver(event_id, context)
    else:
        assert from_at is not None
        assert to_at is not None
        sent = services().events.redeliver_range(RedeliverEvents(from_at, to_at, event_type, only), context)
    show(sent, f"Events that are sent again: {sent.events}.")


@webhooks.command(example="transaction.succeeded --to http://127.0.0.1:9000/hooks")
@click.argument("event_type", metavar="EVENT", type=KnownName(EVENT_TYPES))
@_receiver_options
def trigger(event_type: str, url: str, secret: str | None) -> None:
    """Send a sample of EVENT, such as transaction.succeeded, to a program under development.

    It is signed as a webhook is. Needs no service.
    """
    receiver = LocalWebhook(url, secret)
    sent = receiver.send_sample(event_type)
    show(sent, f"{receiver.about_secret}{sent.sentence}")
    if not sent.was_accepted:
        raise SystemExit(1)


@webhooks.command(example="--client acme --to http://127.0.0.1:9000/hooks")
@client_option
@_receiver_options
@click.option("--count", type=click.IntRange(1), help="End after so many events. Default: at Ctrl-C.")
@click.option("--past", is_flag=True, help="Begin with the events of the last hour.")
def listen(client: str, url: str, secret: str | None, count: int | None, past: bool) -> None:
    """Pass the events of a client on to a program under development, as they come.

    Each is sent once, whatever the program answers; the client's webhooks get it as well. With --json there is one
    document for each.
    """
    receiver, context = LocalWebhook(url, secret), context_of(client)
    click.echo(f"{receiver.about_secret}Passing the events of {client} on to {url}. Ctrl-C ends it.", err=wants_json())
    begin = services().clock.now() - (timedelta(hours=1) if past else timedelta(0))
    seen, passed_on = set[str](), 0
    while True:
        since = max(begin, services().clock.now() - _LATEST_COMMIT) if seen else begin
        for event in _events_since(since, context):
            if event.id in seen:
                continue
            seen.add(event.id)
            sent = receiver.send(event)
            show(sent, sent.sentence)
            passed_on += 1
            if passed_on == count:
                return
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _events_since(begin: datetime, context: RequestContext) -> list[EventView]:
    """The events of a client from `begin` on, oldest first."""
    events: list[EventView] = []
    cursor: str | None = None
    while True:
        page = services().events.list(ListEvents(from_at=begin, cursor=cursor), context)
        events += page.items
        cursor = page.next_cursor
        if cursor is None:
            return events[::-1]


def _line(webhook: WebhookView) -> str:
    if not webhook.is_active:
        state = f"switched off: {webhook.disabled_reason}"
    elif webhook.failing_since:
        state = f"has been failing since {webhook.failing_since:%Y-%m-%d %H:%M} UTC"
    else:
        state = "active"
    return f"{webhook.id}  {webhook.url}  {', '.join(webhook.types or ('all types',))}  {state}"
