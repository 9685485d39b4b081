"""Webhooks and events in the API (contract 3.6)."""

from __future__ import annotations

from marshmallow import fields, validate

from schemas.envelopes import Body, Query, Record
from schemas.fields import Text, Timestamp, Whole

_LONGEST_TYPE = 64


class CreateWebhookBody(Body):
    """The URL to call, and the event types to send. Default: all types."""

    example = {
        "url": "https://client.example/events",
        "types": ["transaction.succeeded", "transaction.failed"],
    }

    url = Text(required=True, longest=2048)
    types = fields.List(Text(longest=_LONGEST_TYPE), allow_none=True, validate=validate.Length(1, 32))


class RedeliverEventsBody(Body):
    """The period, and optionally the type, of the events to send again."""

    example = {"from": "2026-11-20T00:00:00Z", "to": "2026-11-21T00:00:00Z"}

    from_at = Timestamp(required=True, data_key="from")
    to_at = Timestamp(required=True, data_key="to")
    type = Text(longest=_LONGEST_TYPE, allow_none=True)


class ListEventsQuery(Query):
    """The filters of a list of events, newest first."""

    type = Text(longest=_LONGEST_TYPE)
    from_at = Timestamp(data_key="from")
    to_at = Timestamp(data_key="to")
    limit = Whole(lowest=1, highest=100)
    cursor = Text(longest=512)


class WebhookRecord(Record):
    """A webhook; its secret is not shown again."""

    id = fields.String()
    url = fields.String()
    types = fields.List(fields.String(), allow_none=True)
    is_active = fields.Boolean()
    failing_since = Timestamp(allow_none=True)
    disabled_at = Timestamp(allow_none=True)
    disabled_reason = fields.String(allow_none=True)
    created_at = Timestamp()
    updated_at = Timestamp()


class NewWebhookRecord(WebhookRecord):
    """A webhook with its secret, shown this once."""

    secret = fields.String()


class RotatedSecretRecord(Record):
    """A new secret, shown this once, and when the previous one stops signing."""

    secret = fields.String()
    previous_secret_expires_at = Timestamp(allow_none=True)


class WebhookPageRecord(Record):
    """All webhooks of the client."""

    items = fields.List(fields.Nested(WebhookRecord))
    next_cursor = fields.String(allow_none=True)


class DeliveryRecord(Record):
    """The delivery of one event to one URL, with the response to the last attempt."""

    id = fields.String()
    webhook_id = fields.String(allow_none=True)
    url = fields.String()
    status = fields.String()
    attempts = fields.Integer()
    answer_status = fields.Integer(allow_none=True)
    answer = fields.String(allow_none=True)
    trouble = fields.String(allow_none=True)
    took_ms = fields.Integer(allow_none=True)
    attempted_at = Timestamp(allow_none=True)
    next_attempt_at = Timestamp(allow_none=True)
    created_at = Timestamp()
    completed_at = Timestamp(allow_none=True)


class EventRecord(Record):
    """An event. Its webhooks receive `data`."""

    id = fields.String()
    type = fields.String()
    object_id = fields.String()
    sequence = fields.Integer()
    created_at = Timestamp()
    data = fields.Raw()


class EventDeliveriesRecord(EventRecord):
    """An event with its deliveries."""

    deliveries = fields.List(fields.Nested(DeliveryRecord))


class EventPageRecord(Record):
    """A page of events."""

    items = fields.List(fields.Nested(EventRecord))
    next_cursor = fields.String(allow_none=True)


class RedeliveryRecord(Record):
    """How many events are sent again."""

    events = fields.Integer()
