"""The webhooks of the OpenAPI document: what each type of event sends to a client's URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ussd_server.services.clients.keys.messages import DeletedApiKeyView, ExpiringApiKeyView, RefusedAddressView
from ussd_server.services.payouts.messages import PayoutView
from ussd_server.services.subscribers.messages import PinLockedView
from ussd_server.services.transactions.messages import TransactionView
from ussd_server.services.ussd.messages import SessionView
from ussd_server.services.webhooks.messages import (
    EVENT_TYPES,
    WebhookDisabledView,
    WebhookRecoveredView,
    WebhookTestView,
)

_Json = dict[str, Any]
_DATA: Mapping[str, type] = {
    "transaction": TransactionView,
    "account": TransactionView,
    "payout": PayoutView,
    "ussd": SessionView,
    "subscriber.pin_locked": PinLockedView,
    "api_key.deleted": DeletedApiKeyView,
    "api_key.expiring": ExpiringApiKeyView,
    "api_key.address_refused": RefusedAddressView,
    "webhook.disabled": WebhookDisabledView,
    "webhook.recovered": WebhookRecoveredView,
    "webhook.test": WebhookTestView,
}
"""The view that an event carries, by its type or by the first part of its type."""
# A group of their own: as `webhooks` they would replace, in generated clients, the file of the calls about webhooks.
EVENTS = {"name": "events", "x-displayName": "Events", "description": "What the service sends to the URL of a webhook."}
_HEADERS = {
    "webhook-id": ("The id of the event. A repeated delivery has the same.", {"type": "string"}),
    "webhook-timestamp": (
        "When this attempt was signed, in seconds since 1970. Refuse one that is older than five minutes.",
        {"type": "string", "pattern": "^[0-9]+$"},
    ),
    "webhook-signature": (
        "Signatures separated by spaces; one of them must be right. Each is `v1,` and the Base64 of an HMAC-SHA256 of "
        "`webhook-id`, `webhook-timestamp` and the body as received, joined by `.`. Its key is the Base64 after "
        "`whsec_` in the webhook's secret.",
        {"type": "string", "pattern": "^v1,[A-Za-z0-9+/=]+( v1,[A-Za-z0-9+/=]+)*$"},
    ),
}
_RESPONSES = {
    "2XX": {"description": "The event was received. Any other reply, or none within 10 seconds, is retried."},
    "410": {"description": "The webhook is switched off."},
}


def webhooks(refer: Callable[[Any], _Json], examples: Mapping[str, Any]) -> _Json:
    """Return the `webhooks` of the document; `refer` returns a reference to a view's schema."""
    return {
        event_type: {"post": _operation(event_type, meaning, refer(data_of(event_type)), examples.get(event_type))}
        for event_type, meaning in EVENT_TYPES.items()
    }


def event_data(refer: Callable[[Any], _Json]) -> _Json:
    """Return the schema of the `data` of an event of any type."""
    return {"anyOf": [refer(view) for view in dict.fromkeys(_DATA.values())]}


def data_of(event_type: str) -> type:
    return _DATA.get(event_type) or _DATA[event_type.partition(".")[0]]


def _operation(event_type: str, meaning: str, data: _Json, example: Any) -> _Json:
    fields = {
        "type": {"const": event_type, "description": "The type."},
        "timestamp": {"type": "string", "format": "date-time", "description": "When it happened."},
        "data": data,
    }
    body = {"type": "object", "properties": fields, "required": list(fields)}
    return {
        "operationId": event_type.replace(".", "_") + "_event",
        "tags": [EVENTS["name"]],
        "summary": event_type,
        "description": meaning,
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": text, "schema": schema}
            for name, (text, schema) in _HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body, "example": example}}},
        "responses": _RESPONSES,
    }
