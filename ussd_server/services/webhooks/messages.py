"""Messages about webhooks, events and deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from ussd_server.wire import ListPeriod

EVENT_TYPES: Mapping[str, str] = {
    "transaction.created": "A transaction was recorded; nothing was sent to a provider yet.",
    "transaction.submitted": "A transaction may have reached its provider.",
    "transaction.pending": "The provider has the transaction and waits for the subscriber.",
    "transaction.ambiguous": "The provider does not answer. The outcome is unknown, and we keep querying it.",
    "transaction.succeeded": "The money moved. With `late` true, this comes after `transaction.failed`.",
    "transaction.failed": "The money did not move; `failure` says why.",
    "transaction.reversed": "A succeeded transaction was given back.",
    "transaction.needs_review": "The provider could not confirm the outcome; an operator reviews the transaction.",
    "account.corrected": "Operators corrected an account by what moved outside. The event shows the correction.",
    "payout.needs_approval": "A payout was created; another key or person than its maker can approve it.",
    "payout.needs_money": "A payout is due and its money is missing. It is cancelled a day later, unless money comes.",
    "payout.approval_withdrawn": "An approval was withdrawn, because its key or person was revoked or its fees "
    "changed. The payout is a draft.",
    "payout.completed": "Every row of an approved payout has its outcome, or was cancelled.",
    "ussd.session.ended": "A USSD session came to its end.",
    "subscriber.pin_locked": "A subscriber's number was locked after wrong PINs: for an hour, or for a day when it was "
    "locked in the 30 days before.",
    "api_key.deleted": "An API key was deleted and is refused from now on.",
    "api_key.expiring": "An API key expires in 7 days, or in 1 day.",
    "api_key.address_refused": "A call with a key's right secret came from an address that it does not allow, and was "
    "refused; once a day for each key.",
    "webhook.disabled": "A webhook was switched off because it accepted no deliveries any more.",
    "webhook.recovered": "A webhook accepts events again after some were given up, or after it was switched off.",
    "webhook.test": "A test was requested. It is sent to the webhook under test, whatever its types.",
}
"""Every type of event that a client can receive, and what it means."""

WEBHOOK_DISABLED = "webhook.disabled"
WEBHOOK_RECOVERED = "webhook.recovered"
WEBHOOK_TEST = "webhook.test"
DEFAULT_GRACE_SECONDS = 86_400


def is_of_transaction(event_type: str) -> bool:
    """Whether the object of an event is a transaction, whose later events store only what has changed."""
    return event_type.startswith(("transaction.", "account."))


class DeliveryStatus(StrEnum):
    """The state of a delivery: on its way, accepted, given up, or no longer wanted."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class LateWebhook:
    """A webhook whose first due delivery was due at `due_at`. `url` is None for the callback addresses of payments."""

    webhook_id: str
    client: str
    url: str | None
    due_at: datetime
    failing_since: datetime | None
    under_way: int


@dataclass(frozen=True, slots=True)
class CreateWebhook:
    """Send events of `types` to `url`; None: of every type."""

    url: str
    types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChangeWebhook:
    """Give a webhook another `url` and other `types`; None: every type."""

    webhook_id: str
    url: str
    types: tuple[str, ...] | None = None


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
class ListEvents(ListPeriod):
    """A page of events, newest first.

    `delivery` is `waiting` or `dead`: only events with a delivery to a webhook that is in this state.
    """

    type: str | None = None
    delivery: DeliveryStatus | None = None


@dataclass(frozen=True, slots=True)
class RedeliverEvents:
    """Send again the events from `from_at` (included) to `to_at` (not included).

    `limited_to` is `failed` for those that an active webhook of their type has not accepted; None: all.
    """

    from_at: datetime
    to_at: datetime
    type: str | None = None
    limited_to: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookView:
    id: Annotated[str, "The identifier, a UUID."]
    url: Annotated[str, "The URL that is called."]
    types: Annotated[tuple[str, ...] | None, "The event types to send; null means all."]
    is_active: Annotated[bool, "Whether events are sent to it."]
    failing_since: Annotated[datetime | None, "Since when deliveries fail; null while they succeed."]
    disabled_at: Annotated[datetime | None, "When the webhook was switched off."]
    disabled_reason: Annotated[str | None, "Why the webhook was switched off."]
    created_at: Annotated[datetime, "When it was created."]
    updated_at: Annotated[datetime, "When it last changed."]


@dataclass(frozen=True, slots=True)
class NewWebhookView(WebhookView):
    """A webhook with its secret, which is shown this once."""

    secret: Annotated[str, "The secret that signs the calls; shown this once."] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RotatedSecretView:
    """A new secret, and until when the one before it signs as well; null: it does not."""

    secret: Annotated[str, "The secret that signs the calls; shown this once."] = field(repr=False)
    previous_secret_expires_at: Annotated[datetime | None, "When the previous secret expires."]


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One event on its way to one address, with the response to the last attempt."""

    id: Annotated[str, "The identifier, a UUID."]
    webhook_id: Annotated[str | None, "The webhook; null for the callback of a single transaction."]
    url: Annotated[str, "The URL that is called."]
    status: Annotated[DeliveryStatus, "The status."]
    attempts: Annotated[int, "How often it was tried."]
    answer_status: Annotated[int | None, "The HTTP status of the receiver's last response."]
    answer: Annotated[str | None, "The first KiB of the receiver's last response."]
    trouble: Annotated[str | None, "Why the last attempt failed, when there was no response."]
    took_ms: Annotated[int | None, "How long it took, in milliseconds."]
    attempted_at: Annotated[datetime | None, "When it was last tried."]
    next_attempt_at: Annotated[datetime | None, "When the next attempt is due; null when there is none."]
    created_at: Annotated[datetime, "When it was created."]
    completed_at: Annotated[datetime | None, "When it became final; null before."]


@dataclass(frozen=True, slots=True)
class WebhookDisabledView:
    """A webhook that was switched off, as its event shows it."""

    webhook_id: Annotated[str, "The `id` of the webhook."]
    url: Annotated[str, "The URL that is called."]
    reason: Annotated[str, "Why the webhook was switched off."]
    disabled_at: Annotated[datetime, "When the webhook was switched off."]


@dataclass(frozen=True, slots=True)
class WebhookRecoveredView:
    """A webhook that accepts events again, as its event shows it."""

    webhook_id: Annotated[str, "The `id` of the webhook."]
    url: Annotated[str, "The URL that is called."]
    missed_since: Annotated[
        datetime, "When the first event came that it missed: the `from` of a redelivery with `only` `failed`."
    ]


@dataclass(frozen=True, slots=True)
class WebhookTestView:
    """A test that a client requested, as its event shows it."""

    webhook_id: Annotated[str, "The `id` of the webhook under test."]


@dataclass(frozen=True, slots=True)
class EventView:
    id: Annotated[str, "The identifier, a UUID."]
    type: Annotated[str, "The type."]
    object_id: Annotated[str, "The object that the event reports."]
    sequence: Annotated[int, "The number of the event among those of its object, from 1."]
    created_at: Annotated[datetime, "When it was created."]
    data: Annotated[Mapping[str, Any], "The content of the event; its webhooks receive the same."]


@dataclass(frozen=True, slots=True)
class EventDeliveries(EventView):
    """An event with its deliveries, oldest first."""

    deliveries: Annotated[tuple[DeliveryView, ...], "The deliveries of the event, one for each URL."]


@dataclass(frozen=True, slots=True)
class Redelivery:
    """How many events are sent again."""

    events: Annotated[int, "How many events are sent again."]


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

    `waiting` counts to 1000 and no further. `failed` are those of the `tried` that the webhook did not accept, of the
    newest 1000 attempts of the last 24 hours.
    """

    attempts: tuple[DeliveryAttemptView, ...]
    waiting: int
    tried: int
    failed: int
