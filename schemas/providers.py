"""Providers in the API (contract 10)."""

from __future__ import annotations

from schemas.envelopes import Query
from schemas.fields import PhoneNumber
from schemas.shared import PAGE_CURSOR, PAGE_LIMIT


class GetSubscriberQuery(Query):
    """The phone number whose subscriber is asked for."""

    phone_number = PhoneNumber(required=True, metadata={"description": "The subscriber: `+256` and nine digits."})


class GetHistoryQuery(Query):
    """A page of the history of a phone number."""

    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR
