"""Messages about searching."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from ussd_server.wire import one_of

MOST_HITS = 50
"""How many hits one search returns."""


_Kind = Annotated[str, one_of("transaction", "session", "event", "key", "payout", "menu", "webhook", "person")]


@dataclass(frozen=True, slots=True)
class Search:
    """Request for the objects that a whole value names: an id, a reference, a receipt or a phone number."""

    q: str


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One object that was found. `client` is the name of its client, None in a search of one client."""

    kind: Annotated[_Kind, "What was found."]
    id: Annotated[str, "The identifier, a UUID; of a menu its name."]
    client: str | None
    title: Annotated[str, "What it is, in a few words."]
    sentence: Annotated[str, "One sentence about it."]
    created_at: Annotated[datetime, "When it was created."]


@dataclass(frozen=True, slots=True)
class SearchReply:
    """What a search found."""

    items: Annotated[
        tuple[SearchHit, ...], "What was found, transactions first, of each kind the newest first; at most 50."
    ]
