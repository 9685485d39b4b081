"""Messages about searching."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from ussd_server.wire import Internal, one_of

MOST_HITS = 50
"""How many hits one search returns."""
RECENT_PAYMENTS = 10_000
"""In how many of the newest payments, and rows of payouts, amounts and parts of texts are searched."""
SHORTEST_PART = 3
"""How many characters of a reference, a description or a name are needed."""
KINDS = ("transaction", "session", "event", "key", "payout", "menu", "webhook", "person")


_Kind = Annotated[str, one_of(*KINDS)]


@dataclass(frozen=True, slots=True)
class Search:
    """Request for the objects that a whole value names: an id, a reference, a receipt or a phone number.

    `kind` is one of a hit's, None for all. `from_at` is included, `to_at` is not: when the object was created.
    """

    q: str
    kind: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SearchRecent:
    """Request for recent payments with a part of a text, or of an amount, and for payees of payouts.

    The texts are the reference, the description, the phone number, the receipt, and the metadata with payers' names.

    Give the `part` or the `amount_cents`. Without regard to case. The period is that of `Search`.
    """

    part: str | None = None
    amount_cents: int | None = None
    kind: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One object that was found. `client` is the name of its client, None in a search of one client."""

    kind: Annotated[_Kind, "What was found."]
    id: Annotated[str, "The identifier, a UUID; of a menu its name."]
    client: Internal[str | None]
    title: Annotated[str, "What it is, in a few words."]
    sentence: Annotated[str, "One sentence about it."]
    created_at: Annotated[datetime, "When it was created."]


@dataclass(frozen=True, slots=True)
class SearchReply:
    items: Annotated[
        tuple[SearchHit, ...], "What was found, transactions first, of each kind the newest first; at most 50."
    ]
