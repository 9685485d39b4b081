"""`webhooks`: the webhooks of a client, and events that are sent to them again."""

from __future__ import annotations

from datetime import datetime

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show, show_lines
from ussd_server.cli.names import client_option, context_of, period_options
from ussd_server.services.webhooks.messages import RedeliverEvents, WebhookView


@group()
def webhooks() -> None:
    """List the webhooks of a client, and send events again."""


@webhooks.command(name="list", example="--client acme")
@client_option
def list_(client: str) -> None:
    """Show the webhooks of a client, and since when deliveries to them fail."""
    found = services().webhooks.list(context_of(client)).items
    show_lines(found, map(_line, found), "The client has no webhooks.")


@webhooks.command(example="--client acme --from 2026-11-20T08:00:00Z --to 2026-11-20T10:00:00Z")
@click.argument("event_id", metavar="[EVENT]", required=False)
@client_option
@period_options
@click.option("--type", "event_type", metavar="TYPE", help="Only events of this type, such as transaction.succeeded.")
def redeliver(
    event_id: str | None,
    client: str,
    from_at: datetime | None,
    to_at: datetime | None,
    event_type: str | None,
) -> None:
    """Send EVENT (its id) again, or the events of a period, at most 1,000, in their order.

    Each goes to every webhook of the client that takes its type.
    """
    if (event_id is None) == (from_at is None or to_at is None) or (event_id and event_type):
        raise click.UsageError("Give the id of an event, or a period with --from and --to.")
    context = context_of(client)
    if event_id is not None:
        sent = services().events.redeliver(event_id, context)
    else:
        assert from_at is not None
        assert to_at is not None
        sent = services().events.redeliver_range(RedeliverEvents(from_at, to_at, event_type), context)
    show(sent, f"{sent.events} events are sent again.")


def _line(webhook: WebhookView) -> str:
    if not webhook.is_active:
        state = f"switched off: {webhook.disabled_reason}"
    elif webhook.failing_since:
        state = f"has been failing since {webhook.failing_since:%Y-%m-%d %H:%M} UTC"
    else:
        state = "active"
    return f"{webhook.id}  {webhook.url}  {', '.join(webhook.types or ('all types',))}  {state}"
