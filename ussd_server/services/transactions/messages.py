"""Messages about transactions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ussd_server.providers.failures import Fault, Retry


class TransactionType(StrEnum):
    """What a transaction is. Clients create the first three; refunds and deposits have methods of their own."""

    COLLECTION = "collection"
    DISBURSEMENT = "disbursement"
    TRANSFER = "transfer"
    REFUND = "refund"
    DEPOSIT = "deposit"


class TransactionStatus(StrEnum):
    """The status of a transaction (wire contract 3.1)."""

    CREATED = "created"
    SUBMITTED = "submitted"
    PENDING = "pending"
    AMBIGUOUS = "ambiguous"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REVERSED = "reversed"


UNFINISHED = (
    TransactionStatus.CREATED,
    TransactionStatus.SUBMITTED,
    TransactionStatus.PENDING,
    TransactionStatus.AMBIGUOUS,
)
"""The statuses of a transaction whose outcome is not known yet."""

SUCCESSFUL = (TransactionStatus.SUCCEEDED, TransactionStatus.REVERSED)
"""The statuses of a transaction that succeeded, also one that was given back later."""


class Source(StrEnum):
    """The source of a status change."""

    SUBMIT = "submit"
    CALLBACK = "callback"
    POLL = "poll"
    OPERATOR = "operator"


MAIN_ACCOUNT = "main"


@dataclass(frozen=True, slots=True)
class CreateTransaction:
    """Request for a collection, a disbursement or a transfer.

    `phone_number` is the subscriber (for a transfer: whose account is debited), `amount_cents` 1 to 99_999_999,
    `reference` the client's own name for it (1 to 64 characters, unique for the client for ever), `account` is `main`
    or a subscriber's phone number. `session_id` and `confirmation` name the step of a conversation that requests it;
    `place` are the names of that conversation and its node that outlast our records: the provider's name for the
    payment is derived from them.
    `wait` holds the reply up to that many seconds (0 to 25) until the transaction is final.
    """

    type: TransactionType
    phone_number: str
    amount_cents: int
    reference: str
    currency: str = "UGX"
    to_phone_number: str | None = None
    provider: str | None = None
    account: str = MAIN_ACCOUNT
    description: str | None = None
    metadata: dict[str, Any] | None = None
    callback_url: str | None = None
    idempotency_key: str | None = None
    session_id: str | None = None
    confirmation: str | None = None
    place: tuple[str, ...] | None = None
    wait: int = 0

    def __post_init__(self) -> None:
        # Endpoints and menus pass plain text.
        object.__setattr__(self, "type", TransactionType(self.type))


@dataclass(frozen=True, slots=True)
class CreateRefund:
    """Request to refund a succeeded collection; `amount_cents` None refunds what is left.

    `reason` has at most 200 characters; people must give one.
    """

    transaction_id: str
    reference: str
    amount_cents: int | None = None
    reason: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class OperatorRefund:
    """Request of two operators to refund a succeeded collection of any client.

    `reason` is 1 to 200 characters, `by` and `second` name two different people. `amount_cents` None refunds what is
    left. `reference` None: one made from the collection and `number`, which counts the refunds of the collection that
    have such references. `number` None: the next one, refused if one of them was requested with the same amount.
    """

    transaction_id: str
    reason: str
    by: str
    second: str
    amount_cents: int | None = None
    reference: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class RefundPreview:
    """What a refund would give back, in cents: its amount, what earlier refunds took or hold, and the collection's."""

    amount_cents: int
    refunded_cents: int
    collected_cents: int


@dataclass(frozen=True, slots=True)
class CreateDeposit:
    """An operator's deposit to a client's main account."""

    client_id: str
    amount_cents: int
    reference: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class GetTransaction:
    """Request for one transaction with its history; `wait` holds the reply up to that many seconds for a change."""

    transaction_id: str
    wait: int = 0


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """Request for a page of transactions, newest first. `from_at` is included, `to_at` is not."""

    limit: int = 50
    cursor: str | None = None
    status: TransactionStatus | None = None
    type: TransactionType | None = None
    phone_number: str | None = None
    reference: str | None = None
    provider_transaction_id: str | None = None
    payout_id: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a transaction failed, whose fault it was and whether a retry helps."""

    code: str
    message: str
    fault: Fault
    retry: Retry


@dataclass(frozen=True, slots=True)
class ChangeDetail:
    """What is known about the cause of a status change; None where nothing is.

    `attempt` counts how often the payment was sent, from 1. `sent` is what was sent to the provider: `payment` or
    `status_query`. `left_machine` is False when it certainly never left. `provider_code` is the provider's own code,
    `code` ours: a failure code, or the outcome in capitals. `took_ms` is how long the call took, in milliseconds.
    `note` is an operator's reason, or ours where no provider was asked.
    """

    attempt: int | None = None
    sent: str | None = None
    left_machine: bool | None = None
    provider_code: str | None = None
    code: str | None = None
    took_ms: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a status change added to an account, or took from it (negative).

    `purpose` is `amount` or `fee`, and after it `_reserved` or `_released` where money was only set aside or freed.
    """

    account: str
    amount_cents: int
    purpose: str


@dataclass(frozen=True, slots=True)
class TransactionChange:
    """One status change of a transaction, what caused it, and its entries in the ledger."""

    status: TransactionStatus
    source: Source
    detail: ChangeDetail
    ledger: tuple[LedgerEntry, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transaction as its client sees it; `events` and `explanation` only where one transaction is asked for.

    `refunded_amount_cents` is what refunds of it have taken or hold.
    """

    transaction_id: str
    reference: str
    type: TransactionType
    phone_number: str | None
    to_phone_number: str | None
    amount_cents: int
    fee_cents: int
    currency: str
    account: str
    provider: str | None
    provider_reference: str | None
    provider_transaction_id: str | None
    status: TransactionStatus
    failure: Failure | None
    late: bool
    session_id: str | None
    description: str | None
    metadata: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    next_check_at: datetime | None
    refund_of: str | None
    refunded_amount_cents: int
    payout_id: str | None
    explanation: str | None = None
    events: tuple[TransactionChange, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatedTransaction:
    """A transaction, and whether an earlier request created it."""

    transaction: TransactionView
    replayed: bool


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """A page of transactions and the cursor of the next one."""

    items: tuple[TransactionView, ...]
    next_cursor: str | None
