"""Endpoints for webhooks and events."""

from __future__ import annotations

from schemas.fields import Body, RotateSecretBody
from schemas.webhooks import CreateWebhookBody, ListEventsQuery, RedeliverEventsBody
from ussd_server.api.endpoints import ApiBlueprint, EndpointReply, authenticate_api_key, created
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.webhooks import messages
from ussd_server.wire import DeletionResult, Page

webhooks = ApiBlueprint(
    "webhooks", authenticate_api_key, "Webhooks and events", "Events, and the addresses that receive them."
)


@webhooks.call("GET", "/api/webhooks", needs="webhooks:read", message="Webhooks")
def list_webhooks(context: RequestContext) -> Page[messages.WebhookView]:
    """All webhooks of the client, oldest first."""
    return services().webhooks.list(context)


@webhooks.call(
    "POST", "/api/webhooks", needs="webhooks:write", takes=CreateWebhookBody, status=201, message="Webhook created"
)
def create_webhook(request: messages.CreateWebhook, context: RequestContext) -> EndpointReply[messages.NewWebhookView]:
    """Add an address to be called; the answer alone shows the secret that signs the calls."""
    webhook = services().webhooks.create(request, context)
    return created(webhook, f"/api/webhooks/{webhook.id}")


@webhooks.call("GET", "/api/webhooks/<webhook_id>", needs="webhooks:read", message="Webhook")
def get_webhook(webhook_id: str, context: RequestContext) -> messages.WebhookView:
    """One webhook, and since when it fails."""
    return services().webhooks.get(webhook_id, context)


@webhooks.call("DELETE", "/api/webhooks/<webhook_id>", needs="webhooks:write", message="Webhook deleted")
def delete_webhook(webhook_id: str, context: RequestContext) -> DeletionResult:
    """Remove a webhook; what still waited for it is not sent any more."""
    return services().webhooks.delete(webhook_id, context)


@webhooks.call(
    "POST",
    "/api/webhooks/<webhook_id>/rotate",
    needs="webhooks:write",
    takes=RotateSecretBody,
    message="Webhook secret rotated",
)
def rotate_webhook(request: messages.RotateWebhook, context: RequestContext) -> messages.RotatedSecretView:
    """Give a webhook another secret; for a while its calls carry the signatures of both."""
    return services().webhooks.rotate(request, context)


@webhooks.call(
    "POST",
    "/api/webhooks/callbacks/rotate",
    needs="webhooks:write",
    takes=RotateSecretBody,
    message="Callback secret rotated",
)
def rotate_callbacks(request: messages.RotateCallbacks, context: RequestContext) -> messages.RotatedSecretView:
    """Give another secret, or the first one, for calls to the `callback_url` of single transactions."""
    return services().webhooks.rotate_callbacks(request, context)


@webhooks.call(
    "POST", "/api/webhooks/<webhook_id>/enable", needs="webhooks:write", takes=Body, message="Webhook enabled"
)
def enable_webhook(webhook_id: str, context: RequestContext) -> messages.WebhookView:
    """Switch a webhook on again that was switched off because nothing was taken there."""
    return services().webhooks.enable(webhook_id, context)


@webhooks.call(
    "POST",
    "/api/webhooks/<webhook_id>/test",
    needs="webhooks:write",
    takes=Body,
    status=201,
    message="Test event created",
)
def test_webhook(webhook_id: str, context: RequestContext) -> EndpointReply[messages.EventView]:
    """Send a test event to one webhook; `GET /api/events/{id}` shows what became of it."""
    event = services().webhooks.test(webhook_id, context)
    return created(event, f"/api/events/{event.id}")


@webhooks.call("GET", "/api/events", needs="webhooks:read", query=ListEventsQuery, message="Events")
def list_events(request: messages.ListEvents, context: RequestContext) -> Page[messages.EventView]:
    """The client's events, newest first."""
    return services().events.list(request, context)


@webhooks.call("GET", "/api/events/<event_id>", needs="webhooks:read", message="Event")
def get_event(event_id: str, context: RequestContext) -> messages.EventDeliveries:
    """One event with its deliveries: their status, the time taken and the first KiB of the answer."""
    return services().events.get(event_id, context)


@webhooks.call(
    "POST",
    "/api/events/<event_id>/redeliver",
    needs="webhooks:write",
    takes=Body,
    message="Event will be delivered again",
)
def redeliver_event(event_id: str, context: RequestContext) -> messages.Redelivery:
    """Send one event again to every webhook that takes its type."""
    return services().events.redeliver(event_id, context)


@webhooks.call(
    "POST",
    "/api/events/redeliver",
    needs="webhooks:write",
    takes=RedeliverEventsBody,
    message="Events will be delivered again",
)
def redeliver_events(request: messages.RedeliverEvents, context: RequestContext) -> messages.Redelivery:
    """Send the events of a period again, in their order; at most 1000 at a time."""
    return services().events.redeliver_range(request, context)
