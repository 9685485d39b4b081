"""Webhooks and events in the API (contract 3.6)."""

from __future__ import annotations

from schemas import fields

_LONGEST_TYPE = 64


class CreateWebhookBody(fields.Body):
    """The URL to call, and the event types to send. Default: all types."""

    url = fields.WebAddress("The URL that is called.", required=True, longest=2048)
    types = fields.ListOf(
        "The event types to send; null means all.", fields.Text(longest=_LONGEST_TYPE), most=32, allow_none=True
    )


class RedeliverEventsBody(fields.Body):
    """The period, and optionally the type, of the events to send again, all or those that were missed."""

    from_at = fields.Timestamp("The first moment of the period, inclusive.", required=True, data_key="from")
    to_at = fields.Timestamp("The end of the period, exclusive.", required=True, data_key="to")
    type = fields.Text("The type.", longest=_LONGEST_TYPE, allow_none=True)
    limited_to = fields.ChoiceOf(
        "`failed`: only events that one of your active webhooks of their type has not accepted.",
        ("failed",),
        data_key="only",
    )


class ListEventsQuery(fields.Query):
    """The filters of a list of events, newest first."""

    type = fields.Text("The type.", longest=_LONGEST_TYPE)
    from_at = fields.PERIOD_BEGIN
    to_at = fields.PERIOD_END
    limit = fields.PAGE_LIMIT
    cursor = fields.PAGE_CURSOR
