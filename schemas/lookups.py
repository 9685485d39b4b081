"""Look-ups in the API: subscribers of providers, and search (contract 10 and 16)."""

from __future__ import annotations

from schemas.fields import PAGE_CURSOR, PAGE_LIMIT, REQUIRED_SUBSCRIBER, Query, Text


class GetSubscriberQuery(Query):
    """The phone number whose subscriber is asked for."""

    phone_number = REQUIRED_SUBSCRIBER


class GetHistoryQuery(Query):
    """A page of the history of a phone number."""

    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class SearchQuery(Query):
    """The whole value to search for."""

    q = Text(
        "The whole value: an id, a reference, a provider's receipt or a phone number, whose `+` may come raw.",
        shortest=3,
        longest=64,
        required=True,
        example="order-77",
    )
