"""Messages about the states of providers, and about the subscriber of a phone number."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ussd_server.providers.messages import AmountBounds


class ProviderStatus(StrEnum):
    """Whether a provider takes payments now."""

    AVAILABLE = "available"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"
    SWITCHED_OFF = "switched_off"


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
class SwitchProvider:
    """Request of an operator to take a provider out of use, or into use again, with a reason."""

    provider: str
    is_off: bool
    reason: str


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
