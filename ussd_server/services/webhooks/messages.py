"""Messages about webhooks, events and deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

EVENT_TYPES: Mapping[str, str] = {
    "transaction.created": "A transaction was recorded; nothing was sent to a provider yet.",
    "transaction.submitted": "A transaction may have reached its provider.",
    "transaction.pending": "The provider has the transaction and waits for the subscriber.",
    "transaction.ambiguous": "The provider does not answer. The outcome is unknown, and we keep querying it.",
    "transaction.succeeded": "The money moved. With `late` true, this comes after `transaction.failed`.",
    "transaction.failed": "The money did not move; `failure` says why.",
    "transaction.reversed": "A succeeded transaction was given back.",
    "transaction.needs_review": "The provider could not confirm the outcome; an operator reviews the transaction.",
    "payout.needs_approval": "A payout was created; another key or person than its maker can approve it.",
    "payout.completed": "Every row of an approved payout has its outcome, or was cancelled.",
    "ussd.session.ended": "A USSD session came to its end.",
    "api_key.deleted": "An API key was deleted and is refused from now on.",
    "webhook.disabled": "A webhook was switched off because it accepted no deliveries any more.",
    "webhook.test": "A test was requested. It is sent to the webhook under test, whatever its types.",
}
"""Every type of event that a client can receive, and what it means."""

WEBHOOK_DISABLED = "webhook.disabled"
WEBHOOK_TEST = "webhook.test"
DEFAULT_GRACE_SECONDS = 86_400


class DeliveryStatus(StrEnum):
    """How far a delivery is: on its way, taken, given up, or no longer wanted."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class CreateWebhook:
    """Send events of `types` to `url`; None: of every type."""

    url: str
    types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class NameWebhook:
    """A request about one webhook."""

    webhook_id: str


@dataclass(frozen=True, slots=True)
class RotateWebhook:
    """A request for a new secret; for 0 to 604800 seconds calls are signed with the present one as well."""

    webhook_id: str
    grace_period_seconds: int = DEFAULT_GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class RotateCallbacks:
    """The same request for the secret that signs the callbacks of single transactions."""

    grace_period_seconds: int = DEFAULT_GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class ListEvents:
    """A page of events, newest first. `from_at` is included, `to_at` is not."""

    limit: int = 50
    cursor: str | None = None
    type: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NameEvent:
    """A request about one event."""

    event_id: str


@dataclass(frozen=True, slots=True)
class RedeliverEvents:
    """Send again the events from `from_at` (included) to `to_at` (not included)."""

    from_at: datetime
    to_at: datetime
    type: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookView:
    """A webhook as its client sees it. `failing_since` is null while it accepts deliveries."""

    id: str
    url: str
    types: tuple[str, ...] | None
    is_active: bool
    failing_since: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class NewWebhookView(WebhookView):
    """A webhook with its secret, which is shown this once."""

    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RotatedSecretView:
    """A new secret, shown this once, and until when the one before it signs as well (null: it does not)."""

    secret: str = field(repr=False)
    previous_secret_expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class WebhookPage:
    """All webhooks of a client; there are never so many that a second page is needed."""

    items: tuple[WebhookView, ...]
    next_cursor: None = None


@dataclass(frozen=True, slots=True)
class WebhookDeletion:
    """A webhook that was removed, and when."""

    deleted_id: str
    deleted_at: datetime


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One event on its way to one address.

    `webhook_id` is null for the callback of a single transaction. The `answer_` fields, `trouble` and `took_ms` are of
    the last attempt; `answer` is the first KiB of the reply.
    """

    id: str
    webhook_id: str | None
    url: str
    status: DeliveryStatus
    attempts: int
    answer_status: int | None
    answer: str | None
    trouble: str | None
    took_ms: int | None
    attempted_at: datetime | None
    next_attempt_at: datetime | None
    created_at: datetime
    completed_at: datetime | None


@dataclass(frozen=True, slots=True)
class EventView:
    """An event as its client sees it; `deliveries` only where one event is asked for."""

    id: str
    type: str
    object_id: str
    sequence: int
    created_at: datetime
    data: Mapping[str, Any]
    deliveries: tuple[DeliveryView, ...] = ()


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of events and where the next one begins."""

    items: tuple[EventView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Redelivery:
    """How many events are sent again."""

    events: int


@dataclass(frozen=True, slots=True)
class DeliveryAttemptView:
    """One attempt of a delivery: the headers as sent, and the reply.

    `answer` is the first KiB of the reply's body. `trouble` says what went wrong where no reply came.
    """

    delivery_id: str
    event_id: str
    event_type: str
    number: int
    headers: Mapping[str, str]
    answer_status: int | None
    answer: str | None
    trouble: str | None
    took_ms: int
    attempted_at: datetime


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event as its receivers got it: the body, and all attempts of all deliveries, oldest first."""

    body: str
    attempts: tuple[DeliveryAttemptView, ...]


@dataclass(frozen=True, slots=True)
class WebhookHealth:
    """The newest 20 attempts to reach a webhook, newest first, and how many deliveries wait for it.

    `waiting` counts to 1000 and no further.
    """

    attempts: tuple[DeliveryAttemptView, ...]
    waiting: int
