"""Messages about callbacks of providers, and about transactions that an operator must review."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ussd_server.services.transactions.messages import TransactionHistory, TransactionView


@dataclass(frozen=True, slots=True)
class Callback:
    """A request to a provider's callback path. Only the reference of the payment is read from the body."""

    provider: str
    secret: str
    body: bytes


@dataclass(frozen=True, slots=True)
class CallbackPath:
    provider: str
    path: str


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A transaction as the operator sees it: `reason` is why it needs a review; `note` is how the review ended.

    `connection` is the one that it was sent by, or the place where the settings have none; None while it was not sent.
    `request_id` is that of the call which created it, for the logs.
    """

    transaction: TransactionView
    client_id: str
    connection: str | None
    reason: str | None
    note: str | None
    opened_at: datetime | None
    closed_at: datetime | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class ReviewHistory(ReviewItem):
    transaction: TransactionHistory


@dataclass(frozen=True, slots=True)
class EndReview:
    """Request to end the review of a transaction.

    `has_succeeded` sets the outcome; None only closes the review of a transaction that is final. `receipt` is the
    provider's of a success, None where the operators say that it has none. `reason` is 1 to 200
    characters; `by` and `second` are the names of two different people.
    """

    transaction_id: str
    reason: str
    by: str
    second: str
    has_succeeded: bool | None = None
    receipt: str | None = None
