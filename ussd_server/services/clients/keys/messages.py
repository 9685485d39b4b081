"""API keys as services use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import Annotated, Final

from ussd_server.wire import Cents, DeletionResult, Length

RESOURCES = ("ussd", "menus", "transactions", "balance", "collection", "webhooks", "payouts", "statements", "messages")
ACTIONS = ("read", "write", "send", "approve", "*")
# Only new keys get these scopes: other people may have read the secret of an existing key.
APPROVES, SENDS = "payouts:approve", "transactions:send"
SCOPES = frozenset(f"{resource}:{action}" for resource in RESOURCES for action in ("read", "write", "*")) | {
    APPROVES,
    SENDS,
}
HIDDEN_SECRET = "********"  # noqa: S105 - what stands in place of a secret
DEFAULT_GRACE_SECONDS = 86_400


def expanded(scopes: str | None) -> frozenset[str]:
    """The plain scopes (without stars) that a key's `scopes` include; null includes all but `payouts:approve`."""
    if scopes is None:
        return _PLAIN_SCOPES - {APPROVES}
    stored = set(scopes.split())
    return frozenset(scope for scope in _PLAIN_SCOPES if not stored.isdisjoint({scope, f"{scope.partition(':')[0]}:*"}))


def powers(scopes: str | None) -> frozenset[str]:
    """Those of `payouts:approve` and `transactions:send` that a key with these scopes has."""
    return expanded(scopes) & {APPROVES, SENDS}


_PLAIN_SCOPES = frozenset(scope for scope in SCOPES if not scope.endswith(":*"))


KEY_NAME = Length(1, 100)


@dataclass(frozen=True, slots=True)
class CreateApiKey:
    """Create a key. None of `scopes`: everything the client may do; of the others: no name, no end, no bound.

    `allowed_addresses` are IPv4 or IPv6 addresses or networks; `daily_limit_cents` bounds what a key pays in a day.
    """

    scopes: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    name: Annotated[str | None, KEY_NAME] = None
    allowed_addresses: tuple[str, ...] | None = None
    daily_limit_cents: int | None = None


class Unchanged(Enum):
    """The value of a field that a change leaves as it is."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class UpdateApiKey:
    """Change a key without a new secret; None as in `CreateApiKey`. `is_active` 0 disables it."""

    api_key_id: str
    name: Annotated[str | Unchanged | None, KEY_NAME] = UNCHANGED
    scopes: tuple[str, ...] | Unchanged | None = UNCHANGED
    expires_at: datetime | Unchanged | None = UNCHANGED
    allowed_addresses: tuple[str, ...] | Unchanged | None = UNCHANGED
    daily_limit_cents: int | Unchanged | None = UNCHANGED
    is_active: int | Unchanged = UNCHANGED


@dataclass(frozen=True, slots=True)
class RotateApiKey:
    """Replace the secret; the present one stays valid for 0 to 604800 seconds more."""

    api_key_id: str
    grace_period_seconds: int = DEFAULT_GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class DeleteApiKeys:
    """Delete 1 to 100 keys; `atomic`: all of them or none."""

    api_key_ids: tuple[str, ...]
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class ImportApiKey:
    client_id: str
    apikey: str
    apisecret: str = field(repr=False)
    scopes: tuple[str, ...] | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ApiKeyView:
    """The API key record: the ten fields of the API document, in its order."""

    id: Annotated[str, "The identifier, a UUID."]
    client_id: Annotated[str, "The client."]
    apikey: Annotated[str, "The value for the header `x-api-key`."]
    apisecret: Annotated[str, "The value for the header `x-api-secret`."] = field(repr=False)
    scopes: Annotated[
        str | None, "What the key may do, as `resource:action` with single spaces between; null means everything."
    ]
    is_active: Annotated[int, "1 while the key is accepted, 0 while it is not."]
    created_at: Annotated[datetime, "When it was created."]
    updated_at: Annotated[datetime, "When it last changed."]
    expires_at: Annotated[datetime | None, "When the key expires; null means never."]
    last_used_at: Annotated[datetime | None, "When the key was last used; null means never."]


@dataclass(frozen=True, slots=True)
class ApiKeyRecord(ApiKeyView):
    """Everything that is known about a key."""

    name: Annotated[str | None, "What people call it."]
    created_by: Annotated[str | None, "The e-mail address of the person who made it; null for the operator."]
    allowed_addresses: Annotated[tuple[str, ...] | None, "The networks from which it may be used; null means any."]
    daily_limit_cents: Annotated[
        Cents | None,
        "What disbursements, refunds and approved payouts with it may sum to in a Kampala day, fees included; null "
        "means any sum.",
    ]
    last_used_address: Annotated[
        str | None, "The address of its last accepted call, known after two seconds; null means never used."
    ]
    used_scopes: Annotated[tuple[str, ...], "What its accepted calls of the last 90 days needed."]
    suggested_scopes: Annotated[str | None, "The smallest scopes that cover these calls; null when unused."]


@dataclass(frozen=True, slots=True)
class ApiKeySummary:
    """A key without its secret."""

    id: str
    client_id: str
    apikey: str
    scopes: str | None
    is_active: bool
    is_expired: bool
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    previous_secret_expires_at: datetime | None
    name: str | None
    created_by: str | None
    allowed_addresses: tuple[str, ...] | None
    daily_limit_cents: int | None
    last_used_address: str | None
    paid_today_cents: int

    @property
    def title(self) -> str:
        """Its name, or its value where it has none."""
        return self.name or self.apikey

    @property
    def state(self) -> str:
        """`active`, `disabled` or `expired`."""
        if not self.is_active:
            return "disabled"
        return "expired" if self.is_expired else "active"


@dataclass(frozen=True, slots=True)
class OwnWindow:
    """What is left of one limit of a key."""

    limit: Annotated[int, "The calls that fit into the window."]
    remaining: Annotated[int, "The calls that would still be accepted now."]
    reset: Annotated[int, "The seconds until more calls fit."]


@dataclass(frozen=True, slots=True)
class OwnKey:
    """What a key learns about itself."""

    key_id: Annotated[str, "The identifier of the key, a UUID."]
    name: Annotated[str | None, "What people call it."]
    scopes: Annotated[str | None, "What it may do; null means everything but `payouts:approve`."]
    expires_at: Annotated[datetime | None, "When it expires; null means never."]
    limits: Annotated[dict[str, OwnWindow], "Its limits of calls, by `minute` and `hour`."]
    daily_limit_cents: Annotated[Cents | None, "What it may pay in a Kampala day, in shillings; null means any sum."]
    daily_remaining_cents: Annotated[Cents | None, "What it may still pay today; null means any sum."]


@dataclass(frozen=True, slots=True)
class CallWindow:
    """The calls that count against one limit of a key now."""

    name: str  # minute or hour
    limit: int
    used: int


@dataclass(frozen=True, slots=True)
class RotatedApiKeyView(ApiKeyView):
    """A key with its new secret, and the time until which the old one is valid."""

    previous_secret_expires_at: Annotated[datetime, "When the previous secret expires."]


@dataclass(frozen=True, slots=True)
class ImportedApiKey:
    """The result of an import: `outcome` is `created`, `updated` or `unchanged`."""

    api_key_id: str
    apikey: str
    outcome: str


@dataclass(frozen=True, slots=True)
class DeletedApiKeyView:
    """A deleted key, as its event shows it."""

    id: Annotated[str, "The identifier, a UUID."]
    apikey: Annotated[str, "The value for the header `x-api-key`."]
    deleted_at: Annotated[datetime, "When it was deleted."]


@dataclass(frozen=True, slots=True)
class DeletedKey:
    """A deleted key as people see it. `title` is its name, or its value; `deleted_by` is None for an operator."""

    id: str
    apikey: str
    title: str
    deleted_at: datetime
    deleted_by: str | None


@dataclass(frozen=True, slots=True)
class ExpiringApiKeyView:
    """A key that expires soon, as its event shows it."""

    id: Annotated[str, "The identifier, a UUID."]
    apikey: Annotated[str, "The value for the header `x-api-key`."]
    name: Annotated[str | None, "What people call it."]
    expires_at: Annotated[datetime, "When it expires; calls with it are refused from then on."]
    days_left: Annotated[int, "Which notice this is: 7 or 1 days before, or less if the expiry was changed."]


@dataclass(frozen=True, slots=True)
class RefusedAddressView:
    """A key that was called with its right secret from an address that it does not allow, as its event shows it."""

    id: Annotated[str, "The identifier, a UUID."]
    apikey: Annotated[str, "The value for the header `x-api-key`."]
    name: Annotated[str | None, "What people call it."]
    day: Annotated[str, "The day in Kampala; there is one event for each key and day."]
    address: Annotated[str, "The address of the last such call before the event."]
    refused_at: Annotated[datetime, "When that call was refused."]


@dataclass(frozen=True, slots=True)
class FailedDeletion:
    """A key that a bulk deletion did not find."""

    id: Annotated[str, "The identifier, a UUID."]
    status: Annotated[int, "404: there is no such key."]
    message: Annotated[str, "A sentence for people."]


@dataclass(frozen=True, slots=True)
class BulkDeletion:
    """The result for every key of a bulk deletion, in the order in which the request first names them."""

    deleted: Annotated[tuple[DeletionResult, ...], "The keys that were deleted."]
    failed: Annotated[tuple[FailedDeletion, ...], "The keys that were not deleted, and why."]
    requested: Annotated[int, "How many different keys the request named."]
    deleted_count: Annotated[int, "How many keys were deleted."]
    failed_count: Annotated[int, "How many keys were not deleted."]


class KeyAnswer(StrEnum):
    """The result of a call with a key. The command prints it as the verdict."""

    ACCEPTED = "accepted"
    UNKNOWN = "unknown"
    MISTYPED = "mistyped"
    DELETED = "deleted"
    DISABLED = "disabled"
    EXPIRED = "expired"
    CLIENT_DISABLED = "client_disabled"
    OVER_LIMIT = "over_limit"


@dataclass(frozen=True, slots=True)
class KeyExplanation:
    """What would happen to a call with a key now, and why.

    `since` is when it began, `by` who caused it (an e-mail address, or `operator`), `until` when it ends by itself,
    `client` the name of the key's client; each None where it is not known.
    """

    answer: KeyAnswer
    sentence: str
    since: datetime | None = None
    by: str | None = None
    until: datetime | None = None
    client: str | None = None
