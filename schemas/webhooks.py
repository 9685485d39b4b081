"""Webhooks and events in the API (contract 3.6)."""

from __future__ import annotations

from schemas.fields import PAGE_CURSOR, PAGE_LIMIT, PERIOD_BEGIN, PERIOD_END, Body, ListOf, Query, Text, Timestamp

_LONGEST_TYPE = 64


class CreateWebhookBody(Body):
    """The URL to call, and the event types to send. Default: all types."""

    url = Text("The URL that is called.", required=True, longest=2048)
    types = ListOf("The event types to send; null means all.", Text(longest=_LONGEST_TYPE), most=32, allow_none=True)


class RedeliverEventsBody(Body):
    """The period, and optionally the type, of the events to send again."""

    from_at = Timestamp("The first moment of the period, inclusive.", required=True, data_key="from")
    to_at = Timestamp("The end of the period, exclusive.", required=True, data_key="to")
    type = Text("The type.", longest=_LONGEST_TYPE, allow_none=True)


class ListEventsQuery(Query):
    """The filters of a list of events, newest first."""

    type = Text("The type.", longest=_LONGEST_TYPE)
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR
