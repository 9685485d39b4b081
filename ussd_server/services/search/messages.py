"""Messages about searching."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from ussd_server.wire import Internal, one_of

MOST_HITS = 50
"""How many hits one search returns."""
RECENT_PAYMENTS = 10_000
"""In how many of the newest payments, and rows of payouts, amounts and parts of texts are searched."""
HITS_OF_A_KIND = 5
"""How many hits by parts a kind other than payments has, so that payments hide none and are not hidden."""
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
    """Request for recent objects that have all words of a text, in any order, and for payments of an amount.

    Payments have them in the reference, the description, the phone number, the receipt and the metadata; the digits of
    a phone number may be parted by spaces. Give the `text`, the `amount_cents` or both. Without regard to case.
    The period is that of `Search`.
    """

    text: str | None = None
    amount_cents: int | None = None
    kind: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One object that was found. `client` is the name of its client, None in a search of one client.

    `possible_double`: a payment that may have been made twice.
    """

    kind: Annotated[_Kind, "What was found."]
    id: Annotated[str, "The identifier, a UUID; of a menu its name."]
    client: Internal[str | None]
    title: Annotated[str, "What it is, in a few words."]
    sentence: Annotated[str, "One sentence about it."]
    created_at: Annotated[datetime, "When it was created."]
    possible_double: Internal[bool] = False


@dataclass(frozen=True, slots=True)
class SearchReply:
    items: Annotated[
        tuple[SearchHit, ...], "What was found, transactions first, of each kind the newest first; at most 50."
    ]


def without_repeats(hits: Iterable[SearchHit]) -> tuple[SearchHit, ...]:
    """The hits, each object once, at most 50."""
    unique: dict[tuple[str, str], SearchHit] = {}
    for hit in hits:
        unique.setdefault((hit.kind, hit.id), hit)
    return tuple(unique.values())[:MOST_HITS]
