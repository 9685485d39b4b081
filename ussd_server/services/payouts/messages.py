"""Messages about payouts: many disbursements at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ussd_server.services.transactions.messages import Failure

MOST_ITEMS = 5000
LARGEST_FILE_BYTES = 2 * 1024 * 1024


class PayoutStatus(StrEnum):
    """The status of a payout."""

    DRAFT = "draft"
    APPROVED = "approved"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class ItemState(StrEnum):
    """The state of one row of a payout."""

    READY = "ready"
    INVALID = "invalid"
    QUEUED = "queued"
    SENT = "sent"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class NameMatch(StrEnum):
    """How the name in a row compares with the name that is registered for its phone number."""

    SAME = "same"
    SIMILAR = "similar"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CreatePayout:
    """Request for a payout: the rows of `items` as they came in JSON, or a CSV or XLSX `file`.

    `reference` is the client's own name for it: 1 to 64 characters, unique among the client's payouts.
    """

    reference: str | None = None
    description: str | None = None
    items: tuple[Mapping[str, Any], ...] = ()
    file: bytes | None = None


@dataclass(frozen=True, slots=True)
class NamePayout:
    """A request about one payout."""

    payout_id: str


@dataclass(frozen=True, slots=True)
class ApprovePayout:
    """Request to approve a payout. `total_fee_cents` are the fees that the approver saw, None for any."""

    payout_id: str
    total_fee_cents: int | None = None


@dataclass(frozen=True, slots=True)
class ListPayouts:
    """Request for a page of payouts, newest first. `from_at` is included, `to_at` is not."""

    limit: int = 50
    cursor: str | None = None
    status: PayoutStatus | None = None
    reference: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListPayoutItems:
    """Request for rows of a payout in the order of their lines, of one state or of all."""

    payout_id: str
    limit: int = 50
    cursor: str | None = None
    state: ItemState | None = None


@dataclass(frozen=True, slots=True)
class StateSum:
    """How many rows of a payout are in one state, and what they add up to in cents."""

    count: int
    amount_cents: int
    fee_cents: int


@dataclass(frozen=True, slots=True)
class PayoutView:
    """A payout as its client sees it; `states` only where one payout is asked for."""

    payout_id: str
    reference: str
    description: str | None
    status: PayoutStatus
    item_count: int
    ready_count: int
    invalid_count: int
    succeeded_count: int
    failed_count: int
    queued_count: int
    total_amount_cents: int
    total_fee_cents: int
    created_by: str
    approved_by: str | None
    created_at: datetime
    approved_at: datetime | None
    completed_at: datetime | None
    states: Mapping[ItemState, StateSum]


@dataclass(frozen=True, slots=True)
class FloatShortfall:
    """A provider whose float, when it was last read, is less than the ready rows of a payout need there."""

    provider: str
    needed_cents: int
    float_cents: int


@dataclass(frozen=True, slots=True)
class CreatedPayout:
    """A payout, and whether an earlier request created it."""

    payout: PayoutView
    replayed: bool


@dataclass(frozen=True, slots=True)
class PayoutPage:
    """A page of payouts and the cursor of the next one."""

    items: tuple[PayoutView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class PayoutItemView:
    """One row of a payout. `amount_cents` and `fee_cents` are None where the row is not valid enough to say."""

    line: int
    phone_number: str | None
    amount_cents: int | None
    fee_cents: int | None
    reference: str | None
    description: str | None
    name: str | None
    name_match: NameMatch | None
    state: ItemState
    problems: tuple[str, ...]
    transaction_id: str | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class PayoutItemPage:
    """A page of rows and the cursor of the next one."""

    items: tuple[PayoutItemView, ...]
    next_cursor: str | None
