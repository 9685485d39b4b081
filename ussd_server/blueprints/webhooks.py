"""The door to webhooks and events."""

from __future__ import annotations

from schemas.envelopes import Body
from schemas.webhooks import (
    CreateWebhookBody,
    EventPageRecord,
    EventRecord,
    EventStoryRecord,
    ListEventsQuery,
    NewWebhookRecord,
    RedeliverEventsBody,
    RedeliveryRecord,
    RotatedSecretRecord,
    RotateWebhookBody,
    WebhookDeletionRecord,
    WebhookPageRecord,
    WebhookRecord,
)
from ussd_server.blueprints.doors import Doorway, Reply, by_key
from ussd_server.blueprints.exchange import services
from ussd_server.messages.webhooks import (
    CreateWebhook,
    EventPage,
    EventView,
    ListEvents,
    NameEvent,
    NameWebhook,
    RedeliverEvents,
    Redelivery,
    RotateCallbacks,
    RotatedSecretView,
    RotateWebhook,
    WebhookDeletion,
    WebhookPage,
    WebhookView,
)
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.status import Code

webhooks = Doorway("webhooks", by_key)


@webhooks.call("GET", "/api/webhooks", needs="webhooks:read", gives=WebhookPageRecord(), message="Webhooks")
def list_webhooks(call: CallContext) -> WebhookPage:
    """All webhooks of the client, oldest first."""
    return services().webhooks.list(call)


@webhooks.call(
    "POST", "/api/webhooks", needs="webhooks:write", takes=CreateWebhookBody, makes=CreateWebhook,
    gives=NewWebhookRecord(), status=201, message="Webhook created",
)  # fmt: skip
def create_webhook(wish: CreateWebhook, call: CallContext) -> Reply:
    """Add an address to be called; the answer alone shows the secret that signs the calls."""
    created = services().webhooks.create(wish, call)
    return Reply(created, headers={"Location": f"/api/webhooks/{created.id}"})


@webhooks.call(
    "GET", "/api/webhooks/<webhook_id>", needs="webhooks:read", makes=NameWebhook, gives=WebhookRecord(),
    refuses=(Code.NOT_FOUND,), message="Webhook",
)  # fmt: skip
def get_webhook(wish: NameWebhook, call: CallContext) -> WebhookView:
    """One webhook, and since when it fails."""
    return services().webhooks.get(wish, call)


@webhooks.call(
    "DELETE", "/api/webhooks/<webhook_id>", needs="webhooks:write", makes=NameWebhook, gives=WebhookDeletionRecord(),
    refuses=(Code.NOT_FOUND,), message="Webhook deleted",
)  # fmt: skip
def delete_webhook(wish: NameWebhook, call: CallContext) -> WebhookDeletion:
    """Remove a webhook; what still waited for it is not sent any more."""
    return services().webhooks.delete(wish, call)


@webhooks.call(
    "POST", "/api/webhooks/<webhook_id>/rotate", needs="webhooks:write", takes=RotateWebhookBody, makes=RotateWebhook,
    gives=RotatedSecretRecord(), refuses=(Code.NOT_FOUND,), message="Webhook secret rotated",
)  # fmt: skip
def rotate_webhook(wish: RotateWebhook, call: CallContext) -> RotatedSecretView:
    """Give a webhook another secret; for a while its calls carry the signatures of both."""
    return services().webhooks.rotate(wish, call)


@webhooks.call(
    "POST", "/api/webhooks/callbacks/rotate", needs="webhooks:write", takes=RotateWebhookBody, makes=RotateCallbacks,
    gives=RotatedSecretRecord(), message="Callback secret rotated",
)  # fmt: skip
def rotate_callbacks(wish: RotateCallbacks, call: CallContext) -> RotatedSecretView:
    """Give another secret, or the first one, for calls to the `callback_url` of single transactions."""
    return services().webhooks.rotate_callbacks(wish, call)


@webhooks.call(
    "POST", "/api/webhooks/<webhook_id>/enable", needs="webhooks:write", takes=Body, makes=NameWebhook,
    gives=WebhookRecord(), refuses=(Code.NOT_FOUND,), message="Webhook enabled",
)  # fmt: skip
def enable_webhook(wish: NameWebhook, call: CallContext) -> WebhookView:
    """Switch a webhook on again that was switched off because nothing was taken there."""
    return services().webhooks.enable(wish, call)


@webhooks.call(
    "POST", "/api/webhooks/<webhook_id>/test", needs="webhooks:write", takes=Body, makes=NameWebhook,
    gives=EventRecord(), refuses=(Code.NOT_FOUND,), status=201, message="Test event created",
)  # fmt: skip
def test_webhook(wish: NameWebhook, call: CallContext) -> Reply:
    """Send a test event to one webhook; `GET /api/events/{id}` shows what became of it."""
    event = services().webhooks.test(wish, call)
    return Reply(event, headers={"Location": f"/api/events/{event.id}"})


@webhooks.call(
    "GET", "/api/events", needs="webhooks:read", query=ListEventsQuery, makes=ListEvents, gives=EventPageRecord(),
    message="Events",
)  # fmt: skip
def list_events(wish: ListEvents, call: CallContext) -> EventPage:
    """The client's events, newest first."""
    return services().events.list(wish, call)


@webhooks.call(
    "GET", "/api/events/<event_id>", needs="webhooks:read", makes=NameEvent, gives=EventStoryRecord(),
    refuses=(Code.NOT_FOUND,), message="Event",
)  # fmt: skip
def get_event(wish: NameEvent, call: CallContext) -> EventView:
    """One event with its deliveries: their status, the time taken and the first KiB of the answer."""
    return services().events.get(wish, call)


@webhooks.call(
    "POST", "/api/events/<event_id>/redeliver", needs="webhooks:write", takes=Body, makes=NameEvent,
    gives=RedeliveryRecord(), refuses=(Code.NOT_FOUND,), message="Event will be delivered again",
)  # fmt: skip
def redeliver_event(wish: NameEvent, call: CallContext) -> Redelivery:
    """Tell one event again to every webhook that is switched on for it."""
    return services().events.redeliver(wish, call)


@webhooks.call(
    "POST", "/api/events/redeliver", needs="webhooks:write", takes=RedeliverEventsBody, makes=RedeliverEvents,
    gives=RedeliveryRecord(), message="Events will be delivered again",
)  # fmt: skip
def redeliver_events(wish: RedeliverEvents, call: CallContext) -> Redelivery:
    """Tell the events of a period again, in their order; at most 1000 at a time."""
    return services().events.redeliver_range(wish, call)
