"""Messages about searching."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

MOST_HITS = 50
"""How many hits one search returns."""


@dataclass(frozen=True, slots=True)
class Search:
    """Request for the objects that a whole value names: an id, a reference, a receipt or a phone number."""

    q: str


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One object that was found.

    `kind` is `transaction`, `payout`, `session`, `event`, `key`, `menu`, `webhook` or `person`. `id` is the name of a
    menu. `client` is the name of its client, None in a search of one client.
    """

    kind: str
    id: str
    client: str | None
    title: str
    sentence: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SearchReply:
    """What a search found, transactions first, of each kind the newest first; at most 50."""

    items: tuple[SearchHit, ...]
