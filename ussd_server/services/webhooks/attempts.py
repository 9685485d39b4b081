"""Attempts of deliveries: each request to a webhook as it was sent, and its reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.models.events import Event
from ussd_server.models.sending import Delivery, DeliveryAttempt
from ussd_server.services.webhooks.events import payloads_of
from ussd_server.services.webhooks.messages import DeliveryAttemptView, DeliveryStatus, SentEvent, WebhookHealth
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, iso_milliseconds, new_id
from ussd_server.wire import view_of_row

_NEWEST = 20
_MOST_WAITING = 1000
# An event has a delivery for each webhook and each redelivery; a page shows so many attempts.
_MOST_OF_AN_EVENT = 200


class AttemptService:
    """Shows a client what its webhooks were sent and what they answered."""

    def of_event(self, event_id: str, context: RequestContext) -> SentEvent:
        """What was sent of one event: the newest 200 attempts. Raises NOT_FOUND, also for another client's event."""
        context.require("webhooks:read")
        event = (
            Event.get_or_none(Event.id == event_id, Event.client_id == context.client_id) if is_id(event_id) else None
        )
        if event is None:
            raise ServiceError(Code.NOT_FOUND, "Event not found")
        rows = _attempts().where(Delivery.event_id == event.id)
        newest = list(rows.order_by(DeliveryAttempt.id.desc()).limit(_MOST_OF_AN_EVENT))
        return SentEvent(event_body(event).decode(), tuple(map(_view, reversed(newest))))

    def of_webhook(self, webhook_id: str, context: RequestContext) -> WebhookHealth:
        """How a webhook answered lately. Another client's webhook looks like one that was never called."""
        context.require("webhooks:read")
        rows = _attempts().where(DeliveryAttempt.webhook_id == webhook_id, Delivery.client_id == context.client_id)
        waiting = Delivery.select(Delivery.id).where(
            Delivery.webhook_id == webhook_id,
            Delivery.client_id == context.client_id,
            Delivery.status == DeliveryStatus.WAITING,
        )
        return WebhookHealth(
            tuple(map(_view, rows.order_by(DeliveryAttempt.id.desc()).limit(_NEWEST))),
            waiting.limit(_MOST_WAITING).count(),
        )


def event_body(event: Event) -> bytes:
    """An event as the Standard Webhooks specification wants it; the same bytes at every attempt."""
    document = {
        "type": event.type,
        "timestamp": iso_milliseconds(event.created_at),
        "data": payloads_of([event])[event.id],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def keep_attempt(delivery: Delivery, headers: Mapping[str, str]) -> None:
    """Write the attempt that `delivery` has just stored the answer of. Call in the unit of work that concludes it."""
    DeliveryAttempt.insert(
        id=new_id(delivery.attempted_at),
        delivery_id=delivery.id,
        webhook_id=delivery.webhook_id,
        number=delivery.attempts,
        headers=dict(headers),
        answer_status=delivery.answer_status,
        answer=delivery.answer,
        trouble=delivery.trouble,
        took_ms=delivery.took_ms,
        attempted_at=delivery.attempted_at,
    ).execute()


def _attempts() -> Any:
    return (
        DeliveryAttempt.select(DeliveryAttempt, Event.id.alias("event_id"), Event.type.alias("event_type"))
        .join(Delivery, on=(Delivery.id == DeliveryAttempt.delivery_id))
        .join(Event, on=(Event.id == Delivery.event_id))
        .objects()
    )


def _view(row: Any) -> DeliveryAttemptView:
    return view_of_row(DeliveryAttemptView, row)
