"""Messages about the states of providers, and about the subscriber of a phone number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from ussd_server.providers.messages import Bounds, ProviderName
from ussd_server.wire import Cents, Internal

CALLS_KEPT_DAYS = 8


class ProviderStatus(StrEnum):
    AVAILABLE = "available"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"
    SWITCHED_OFF = "switched_off"


@dataclass(frozen=True, slots=True)
class ProviderState:
    """The state of a provider, from our own calls of the last 15 minutes."""

    provider: Annotated[ProviderName, "The name of the provider."]
    name: Annotated[str, "The full name of the provider."]
    status: Annotated[ProviderStatus, "`available`, `degraded`, `unavailable` or `switched_off`."]
    collections: Annotated[Bounds, "What it takes from subscribers."]
    disbursements: Annotated[Bounds, "What it sends to subscribers."]
    success_rate: Annotated[
        float | None, "The share of answered calls at which the provider did not fail, 0 to 1; null without calls."
    ]
    median_seconds: Annotated[float | None, "The median duration of our calls; null without calls."]
    since: Annotated[datetime | None, "When the status began; null where it is not known."]
    message: Annotated[str, "A sentence for people."]

    @property
    def is_troubled(self) -> bool:
        """Whether it needs the attention of people: it does not take payments as usual."""
        return self.status is not ProviderStatus.AVAILABLE


@dataclass(frozen=True, slots=True)
class OperatorProviderState(ProviderState):
    """The state of a provider as operators see it; `float_low_since` is None while the float is not low.

    `call_count` are our calls of the last 15 minutes, with those that failed or were not answered.
    """

    connection: Annotated[str, "The name of the connection in the settings."]
    account: Annotated[str, "The name of the account there, which several connections may share."]
    client: Annotated[str | None, "The client that alone it serves, by name; null for all."]
    float_amount_cents: Annotated[Cents | None, "The money for disbursements at the provider, in shillings."]
    float_at: Annotated[datetime | None, "When the provider told it."]
    float_low_since: Internal[datetime | None]
    call_count: Internal[int]
    failed_count: Internal[int]
    unanswered_count: Internal[int]
    last_error: Annotated[str | None, "The provider's last failure."]
    last_error_at: Annotated[datetime | None, "When it failed last."]
    waiting_elsewhere: Annotated[
        dict[str, int],
        "How many payments wait for a place to which they were sent and that the settings no longer have.",
    ]


def written_places(places: Mapping[str, int]) -> str:
    """How many payments wait for which place, in words: `3 for https://proxy.momoapi.mtn.com:443 mtnuganda …`."""
    return ", ".join(f"{count} for {place}" for place, count in sorted(places.items()))


@dataclass(frozen=True, slots=True)
class QuarterOfCalls:
    """Our calls to a provider in a quarter of an hour; `good_share` (0 to 1) and `median_seconds` are None without any.

    `bad_count` are those that failed or were not answered.
    """

    began_at: datetime
    bad_count: int
    good_share: float | None
    median_seconds: float | None


@dataclass(frozen=True, slots=True)
class ProviderList:
    """The providers of this server."""

    items: Annotated[tuple[ProviderState, ...], "The providers of this server."]


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
    """Request of an operator to take a connection out of use for new payments, or into use again, with a reason."""

    connection: str
    is_off: bool
    reason: str


@dataclass(frozen=True, slots=True)
class AdoptPlace:
    """Request of two operators to say that the place `old`, as `providers` shows it, is that of a connection now."""

    old: str
    connection: str
    reason: str
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class AdoptedPlace:
    """How many payments, finished ones among them, belong to the connection now."""

    connection: str
    payment_count: int


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The subscriber of a phone number; each is None where it is not known."""

    phone_number: Annotated[str, "The subscriber: `+256` and nine digits."]
    provider: Annotated[ProviderName | None, "The provider to which the number belongs by its prefix."]
    name: Annotated[str | None, "The name of the subscriber; null where the provider cannot tell."]
    is_registered: Annotated[
        bool | None, "Whether the provider has a subscriber under the number; null where it cannot tell."
    ]


@dataclass(frozen=True, slots=True)
class ChooseConnection:
    """Request of two operators to give a client a connection of its own; `is_shared`: that of all again."""

    client_id: str
    connection: str
    reason: str
    by: str
    second: str
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class ChosenConnection:
    """The connection that takes a client's new payments at a provider; None for the one of all."""

    client_id: str
    provider: str
    connection: str | None
