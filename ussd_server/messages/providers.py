"""Messages to and from providers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

PROVIDER_NAMES = ("mtn", "airtel", "sandbox")
"""The providers that menus may ask about."""


class Direction(StrEnum):
    """Which way the money goes, seen from the client."""

    COLLECTION = "collection"
    DISBURSEMENT = "disbursement"
    REFUND = "refund"


class Fault(StrEnum):
    """Whose a failure is."""

    PAYER = "payer"
    PAYEE = "payee"
    CLIENT = "client"
    PROVIDER = "provider"
    SERVICE = "service"


class Retry(StrEnum):
    """What helps after a failure."""

    NO = "no"
    NEW_ATTEMPT = "new_attempt"
    AFTER_USER_ACTION = "after_user_action"
    WAIT = "wait"


class FailureCode(StrEnum):
    """Why a payment failed: the same codes for every provider (wire contract 3.1)."""

    INSUFFICIENT_BALANCE = "INSUFFICIENT_BALANCE"
    CLIENT_FLOAT_LOW = "CLIENT_FLOAT_LOW"
    PAYER_DECLINED = "PAYER_DECLINED"
    PAYER_TIMEOUT = "PAYER_TIMEOUT"
    WRONG_PIN = "WRONG_PIN"
    PAYER_NOT_FOUND = "PAYER_NOT_FOUND"
    PAYER_BLOCKED = "PAYER_BLOCKED"
    PAYER_LIMIT_REACHED = "PAYER_LIMIT_REACHED"
    PAYEE_NOT_FOUND = "PAYEE_NOT_FOUND"
    PAYEE_BLOCKED = "PAYEE_BLOCKED"
    PAYEE_LIMIT_REACHED = "PAYEE_LIMIT_REACHED"
    AMOUNT_OUT_OF_BOUNDS = "AMOUNT_OUT_OF_BOUNDS"
    CANCELLED = "CANCELLED"
    PROVIDER_CONFIG = "PROVIDER_CONFIG"
    PROVIDER_UNAVAILABLE = "PROVIDER_UNAVAILABLE"
    PROVIDER_ERROR = "PROVIDER_ERROR"


@dataclass(frozen=True, slots=True)
class FailureKind:
    """What a failure code means to a client: a sentence, whose fault it is, and what helps."""

    message: str
    fault: Fault
    retry: Retry


FAILURES: dict[FailureCode, FailureKind] = {
    FailureCode.INSUFFICIENT_BALANCE: FailureKind(
        "The payer's mobile money balance is too low", Fault.PAYER, Retry.AFTER_USER_ACTION
    ),
    FailureCode.CLIENT_FLOAT_LOW: FailureKind(
        "The float held with the mobile money company is too low", Fault.CLIENT, Retry.WAIT
    ),
    FailureCode.PAYER_DECLINED: FailureKind("The payer declined the payment", Fault.PAYER, Retry.NEW_ATTEMPT),
    FailureCode.PAYER_TIMEOUT: FailureKind("The payer did not approve in time", Fault.PAYER, Retry.NEW_ATTEMPT),
    FailureCode.WRONG_PIN: FailureKind("The payer entered a wrong PIN", Fault.PAYER, Retry.NEW_ATTEMPT),
    FailureCode.PAYER_NOT_FOUND: FailureKind("The payer has no mobile money account", Fault.PAYER, Retry.NO),
    FailureCode.PAYER_BLOCKED: FailureKind("The payer's account may not pay", Fault.PAYER, Retry.NO),
    FailureCode.PAYER_LIMIT_REACHED: FailureKind("The payer reached a limit of their account", Fault.PAYER, Retry.WAIT),
    FailureCode.PAYEE_NOT_FOUND: FailureKind("The payee has no mobile money account", Fault.PAYEE, Retry.NO),
    FailureCode.PAYEE_BLOCKED: FailureKind("The payee's account may not receive", Fault.PAYEE, Retry.NO),
    FailureCode.PAYEE_LIMIT_REACHED: FailureKind("The payee reached a limit of their account", Fault.PAYEE, Retry.WAIT),
    FailureCode.AMOUNT_OUT_OF_BOUNDS: FailureKind(
        "The mobile money company does not move this amount", Fault.CLIENT, Retry.NO
    ),
    FailureCode.CANCELLED: FailureKind("The payment was cancelled", Fault.PROVIDER, Retry.NEW_ATTEMPT),
    FailureCode.PROVIDER_CONFIG: FailureKind(
        "The service is not set up correctly with the mobile money company", Fault.SERVICE, Retry.NO
    ),
    FailureCode.PROVIDER_UNAVAILABLE: FailureKind(
        "The mobile money company is not available", Fault.PROVIDER, Retry.WAIT
    ),
    FailureCode.PROVIDER_ERROR: FailureKind(
        "The mobile money company could not complete the payment", Fault.PROVIDER, Retry.NEW_ATTEMPT
    ),
}


MOST_CENTS = 99_999_900
"""The largest whole amount that the API takes, in cents."""


class Outcome(StrEnum):
    """What one reply of a provider proves about a payment.

    SUCCEEDED and FAILED are definite. PENDING: the provider has it and is not finished. UNKNOWN: nothing can be
    concluded (silence, garbage, an error page). NOT_FOUND: the provider says that it has no such payment.
    NOT_SENT: the request provably never left, so the same payment may be asked again at once.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PENDING = "pending"
    UNKNOWN = "unknown"
    NOT_FOUND = "not_found"
    NOT_SENT = "not_sent"


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """One answer about a payment. `failure` is set exactly when the outcome is FAILED.

    `reason` is the provider's own code or message, at most 80 characters of `A-Za-z0-9_ .-`, kept in the history.
    `amount_cents` is the amount that the provider reports, if any; another amount than ours goes to review.
    `left_machine` is False when the request certainly never left this machine.
    """

    outcome: Outcome
    failure: FailureCode | None = None
    provider_transaction_id: str | None = None
    amount_cents: int | None = None
    reason: str = ""
    left_machine: bool = True


@dataclass(frozen=True, slots=True)
class PaymentOrder:
    """A payment as a provider receives it; the same message serves sending and querying the status.

    `provider_reference` is a version 4 UUID, stored before the first request: the idempotency key at the provider.
    `phone_number` is the subscriber (+256 and nine digits), `amount_cents` is 1 to 99_999_999.
    `original_provider_reference` and `original_provider_transaction_id` name the collection that is refunded.
    `asked_at` is when it was first sent (UTC), None before that. `note` is short text for the subscriber.
    """

    transaction_id: str
    provider_reference: str
    direction: Direction
    phone_number: str
    amount_cents: int
    currency: str
    note: str = ""
    asked_at: datetime | None = None
    original_provider_reference: str | None = None
    original_provider_transaction_id: str | None = None


@dataclass(frozen=True, slots=True)
class PollingSchedule:
    """When the status of an unfinished payment is queried; all in seconds.

    `delays` follow one another, the last one repeats; each is jittered by the caller. `not_found_means_lost_after`:
    a NOT_FOUND this long after sending proves that the payment never arrived and may be sent again under the same
    reference. `late_check_after`: one more enquiry this long after a failure, because providers have been seen to
    report success after failure. `give_up_after`: then an operator reviews it.
    """

    delays: tuple[float, ...]
    not_found_means_lost_after: float
    late_check_after: float
    give_up_after: float
    per_second: float


class ProviderStatus(StrEnum):
    """Whether a provider takes payments now."""

    AVAILABLE = "available"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"
    SWITCHED_OFF = "switched_off"


@dataclass(frozen=True, slots=True)
class AmountBounds:
    """What a provider moves in one direction, in cents; `enabled` is False where it is not set up for it."""

    enabled: bool
    min_amount_cents: int
    max_amount_cents: int


@dataclass(frozen=True, slots=True)
class ProviderState:
    """The state of a provider, from our own calls of the last 15 minutes.

    `success_rate` is the share of answered calls at which the provider did not fail, `median_seconds` the median
    duration of a call; both None without calls. `since` is when the status began, None where it is not known.
    The last four are for operators: the money for disbursements, when the provider told it, since when it is low (None
    while it is not), and the last failure.
    """

    provider: str
    name: str
    status: ProviderStatus
    collections: AmountBounds
    disbursements: AmountBounds
    success_rate: float | None
    median_seconds: float | None
    since: datetime | None
    message: str
    float_amount_cents: int | None
    float_at: datetime | None
    float_low_since: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ProviderChange:
    """An entry in the history of a provider: an operator's switch, or a float that became low or was restored.

    `operator` is the e-mail address of the operator, None for the command line and for what the service noticed.
    """

    at: datetime
    provider: str
    action: str
    actor: str
    operator: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Registration:
    """What a provider answers about a phone number: the name, and whether there is a subscriber; None: no answer."""

    name: str | None = None
    is_registered: bool | None = None


@dataclass(frozen=True, slots=True)
class GetSubscriber:
    """Request for the subscriber of a phone number (+256 and nine digits)."""

    phone_number: str


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The subscriber of a phone number; each is None where it is not known."""

    phone_number: str
    provider: str | None
    name: str | None
    is_registered: bool | None


@dataclass(frozen=True, slots=True)
class SwitchProvider:
    """Request of an operator to take a provider out of use, or into use again, with a reason."""

    provider: str
    is_off: bool
    reason: str


class Provider(Protocol):
    """A provider. Implementations never raise for what the provider or the network does: they return UNKNOWN."""

    name: str
    pace: PollingSchedule
    moves_whole_shillings_only: bool
    refunds_in_full_only: bool

    @property
    def available(self) -> bool:
        """False while the provider is known to be unavailable: no new payment should be created for it."""
        ...

    def bounds(self, direction: Direction) -> AmountBounds:
        """What it moves in a direction."""
        ...

    def ask(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Send the payment; may be repeated with the same reference without a second effect."""
        ...

    def enquire(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Query the status of the payment."""
        ...

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        """Our float with the provider in cents, None when it cannot be read now."""
        ...

    def look_up(self, phone_number: str, timeout_seconds: float) -> Registration:
        """Who is registered under a phone number. A reply that may be a proxy's says nothing."""
        ...

    def reference_in(self, callback: bytes) -> str | None:
        """The provider reference that a callback body names, None for none. Nothing else in it is trusted."""
        ...
