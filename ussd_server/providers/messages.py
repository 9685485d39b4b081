"""Providers, the payments that they receive and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Protocol

from ussd_server.providers.failures import FailureCode
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.wire import Cents, one_of

ProviderName = Annotated[str, one_of(*PROVIDER_NAMES)]


class Direction(StrEnum):
    """Which way the money goes, seen from the client: by the name of the type of its transaction."""

    COLLECTION = "collection"
    DISBURSEMENT = "disbursement"
    REFUND = "refund"


MOST_CENTS = 99_999_900
"""The largest whole amount that the API takes, in cents."""


class Outcome(StrEnum):
    """What one reply of a provider proves about a payment.

    SUCCEEDED and FAILED are definite. PENDING: the provider has it and is not finished. UNKNOWN: nothing can be
    concluded (silence, garbage, an error page). NOT_FOUND: the provider says that it has no such payment;
    later it is sent again under the same reference, so the provider must refuse a reference that it knows.
    NOT_SENT: the provider did not process the request (it never left, or got a 401), so it may be sent again at once.
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

    `reason` is kept in the history: the provider's own code or message, at most 80 characters of `A-Za-z0-9_ .-`; of a
    4xx or 5xx `HTTP `, the status and the first 200 characters that it said, without our secrets.
    `is_unclear`: the outcome is UNKNOWN although the provider answered the call; this is no outage.
    `receipt` is the one in the subscriber's message, where that is not `provider_transaction_id`.
    `amount_cents` is the amount that the provider reports, if any; another amount than ours goes to review.
    `is_about_another`: the provider has a payment to or from another number under our reference; it goes to review.
    `has_no_query`: the provider cannot be asked about the payment, so what is not definite now goes to review.
    `left_machine` is False when the request certainly never left this machine.
    """

    outcome: Outcome
    failure: FailureCode | None = None
    provider_transaction_id: str | None = None
    receipt: str | None = None
    amount_cents: int | None = None
    reason: str = ""
    left_machine: bool = True
    is_about_another: bool = False
    is_unclear: bool = False
    has_no_query: bool = False


@dataclass(frozen=True, slots=True)
class PaymentOrder:
    """A payment as a provider receives it; the same message serves sending and querying the status.

    `provider_reference` is a version 4 UUID, stored before the first request: the idempotency key at the provider. A
    provider of `plain_references` gets it as 32 hexadecimal digits.
    `phone_number` is the subscriber (+256 and nine digits), `amount_cents` is 1 to 99_999_999.
    `original_provider_reference` and `original_provider_transaction_id` name the collection that is refunded; the first
    is None for one that the payer began.
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
    """When the status of an unfinished payment is queried; all in seconds but `per_second`.

    `delays` follow one another, the last one repeats; each is jittered by the caller. `not_found_means_lost_after`:
    a NOT_FOUND this long after sending proves that the payment never arrived and may be sent again under the same
    reference. `late_check_after`: one more status query this long after a failure, because providers have been seen to
    report success after failure. `give_up_after`: then an operator reviews it. `per_second`: the rate limit that the
    provider states, which all processes share.
    """

    delays: tuple[float, ...]
    not_found_means_lost_after: float
    late_check_after: float
    give_up_after: float
    per_second: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """The amounts that a provider moves in one direction."""

    enabled: Annotated[bool, "Whether this server is set up for it."]
    min_amount_cents: Annotated[Cents, "The smallest amount, in shillings."]
    max_amount_cents: Annotated[Cents, "The largest amount, in shillings."]


ANY_NAME = "SANDBOX SUBSCRIBER"
"""The registered name of most numbers of the sandbox: there, any written name counts as the registered one."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A provider's answer about a phone number: the name, and whether there is a subscriber; None: no answer."""

    name: str | None = None
    is_registered: bool | None = None


class Provider(Protocol):
    """A provider. Implementations never raise for what the provider or the network does: they return UNKNOWN.

    `name` is the provider's, `connection` that of this way to it, `account` that of the account there, which several
    connections may share. One that is `draining` takes no new payments.
    `plain_references`: it takes letters and digits only as our name for a payment, which it gets without hyphens.
    `shows_balance`: it can be asked for our float. `sends_callbacks`: it reports payments to an address of ours.
    """

    name: str
    connection: str
    account: str
    draining: bool
    schedule: PollingSchedule
    moves_whole_shillings_only: bool
    refunds_in_full_only: bool
    plain_references: bool
    shows_balance: bool
    sends_callbacks: bool

    @property
    def available(self) -> bool:
        """False while the provider is known to be unavailable: no new payment should be created for it."""
        ...

    @property
    def refusal(self) -> str:
        """What the provider said when it refused our last call, empty if it did not."""
        ...

    @property
    def refused_in_a_row(self) -> int:
        """How many tokens and payments it refused by our configuration, without a token or a payment accepted since."""
        ...

    def has_access_since(self, seconds: float) -> bool:
        """Whether it granted an access token within so many seconds."""
        ...

    @property
    def bounds(self) -> Mapping[Direction, Bounds]:
        """What it moves in each direction. A payment in one that is not enabled is refused, and never sent."""
        ...

    def place(self, direction: Direction) -> str:
        """Where payments of a direction are sent: address, environment and user. A payment is known only there."""
        ...

    def send(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Send the payment; may be repeated with the same reference without a second effect."""
        ...

    def query_status(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Query the status of the payment."""
        ...

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        """Our float with the provider in cents, None when it cannot be read now."""
        ...

    def look_up(self, phone_number: str, timeout_seconds: float) -> Registration:
        """The registered name of a phone number. A reply that may be a proxy's proves nothing."""
        ...

    def reference_in(self, callback: bytes) -> str | None:
        """The provider reference that a callback body names, None for none. Nothing else in it is trusted."""
        ...

    def close(self) -> None:
        """Close the idle connections. A later call opens a new one."""
        ...
