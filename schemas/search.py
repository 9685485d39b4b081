"""Search in the API (contract 10 and 16)."""

from __future__ import annotations

from marshmallow import fields, validate

from schemas.envelopes import Query, Record
from schemas.fields import Text, Timestamp

_KINDS = ("transaction", "session", "event", "key", "payout", "menu", "webhook", "person")


class SearchQuery(Query):
    """The whole value to search for."""

    example = {"q": "order-1001"}

    q = Text(shortest=3, longest=64, required=True)


class SearchHitRecord(Record):
    """One object that was found."""

    kind = fields.String(validate=validate.OneOf(_KINDS))
    id = fields.String()
    title = fields.String()
    sentence = fields.String()
    created_at = Timestamp()


class SearchReplyRecord(Record):
    """What a search found."""

    items = fields.List(fields.Nested(SearchHitRecord))
