"""Search in the API (contract 10 and 16)."""

from __future__ import annotations

from schemas.envelopes import Query
from schemas.fields import Text


class SearchQuery(Query):
    """The whole value to search for."""

    q = Text(
        shortest=3,
        longest=64,
        required=True,
        metadata={
            "description": "The whole value: an id, a reference, a provider's receipt or a phone number, "
            "whose `+` may come raw."
        },
    )
