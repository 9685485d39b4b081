"""Webhooks and events in the API (contract 3.6)."""

from __future__ import annotations

from marshmallow import fields, validate

from schemas.fields import Body, Query, Text, Timestamp
from schemas.shared import PAGE_CURSOR, PAGE_LIMIT, PERIOD_BEGIN, PERIOD_END

_LONGEST_TYPE = 64


class CreateWebhookBody(Body):
    """The URL to call, and the event types to send. Default: all types."""

    url = Text(required=True, longest=2048, metadata={"description": "The URL that is called."})
    types = fields.List(
        Text(longest=_LONGEST_TYPE),
        allow_none=True,
        validate=validate.Length(1, 32),
        metadata={"description": "The event types to send; null means all."},
    )


class RedeliverEventsBody(Body):
    """The period, and optionally the type, of the events to send again."""

    from_at = Timestamp(
        required=True, data_key="from", metadata={"description": "The first moment of the period, inclusive."}
    )
    to_at = Timestamp(required=True, data_key="to", metadata={"description": "The end of the period, exclusive."})
    type = Text(longest=_LONGEST_TYPE, allow_none=True, metadata={"description": "The type."})


class ListEventsQuery(Query):
    """The filters of a list of events, newest first."""

    type = Text(longest=_LONGEST_TYPE, metadata={"description": "The type."})
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR
