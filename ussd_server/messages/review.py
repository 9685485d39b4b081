"""Review as the inside speaks of it: transactions that a person must look at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ussd_server.messages.transactions import TransactionView


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A transaction as the operator sees it: `reason` is why it needs, or needed, a look; `note` is how that ended."""

    transaction: TransactionView
    client_id: str
    reason: str | None
    note: str | None
    opened_at: datetime | None
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class EndReview:
    """A wish to take a transaction off the review list.

    `has_succeeded` settles one whose outcome nobody could confirm; None only notes that somebody has looked at one that
    is final. `reason` is 1 to 200 characters; `by` and `second` are the names of two different people.
    """

    transaction_id: str
    reason: str
    by: str
    second: str
    has_succeeded: bool | None = None
