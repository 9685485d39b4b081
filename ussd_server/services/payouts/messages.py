"""Messages about payouts: many disbursements at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from ussd_server.services.transactions.messages import DESCRIPTION, REFERENCE, Failure, TransactionStatus
from ussd_server.values import grouped, shillings
from ussd_server.wire import Cents, Internal, Length, ListPage, ListPeriod

MOST_ITEMS = 5000
LARGEST_FILE_BYTES = 2 * 1024 * 1024
MOST_CORRECTED = 50
"""How many invalid rows are corrected at once."""
MOST_LINES_NAMED = 5
"""How many lines a refusal names."""
MOST_RULES = 10
"""How many approval rules a client has at most."""
FIELDS = ("phone_number", "amount", "reference", "name", "description")
"""The fields of a row that people type."""
RESULT_COLUMNS = (
    "line", "phone_number", "amount", "fee", "reference", "description", "name", "name_match", "state", "problems",
    "transaction_id", "failure", "registered_name", "receipt", "warning", "round", "attempts",
)  # fmt: skip
"""The columns of the file with the results; further columns of the payout's file follow."""


class PayoutStatus(StrEnum):
    DRAFT = "draft"
    APPROVED = "approved"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class ItemState(StrEnum):
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


NOTE = Length(1, 200)
_Note = Annotated[str | None, "A note, kept with the payout and in the audit trail, and mailed.", NOTE]


@dataclass(frozen=True, slots=True)
class CreatePayout:
    """Request for a payout: the rows of `items` as they came in JSON, or a CSV or XLSX `file`.

    `reference` is the client's own name for it, unique among the client's payouts. Nothing is sent before `send_at`.
    """

    reference: Annotated[str | None, REFERENCE] = None
    description: Annotated[str | None, DESCRIPTION] = None
    items: tuple[Mapping[str, Any], ...] = ()
    file: bytes | None = None
    send_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RetryPayout:
    """Request for the next round of a payout: rows that failed, or were cancelled unsent, by their references.

    Without `rows`: all that may be paid again. Nothing of the round is sent before `send_at`.
    """

    payout_id: str
    rows: tuple[str, ...] | None = None
    send_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReplacePayout:
    """Request to put a corrected draft in the place of a draft: the rows of a CSV or XLSX `file` in place of its rows,
    or its rows with `corrections`: by line, every field of an invalid row as typed. Fields that equal the kept ones
    change nothing.
    """

    payout_id: str
    file: bytes | None = None
    corrections: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApprovePayout:
    """Request to approve a round of a payout. `total_fee_cents` are its fees that the approver saw, None for any."""

    payout_id: str
    round: int = 1
    total_fee_cents: int | None = None
    note: _Note = None


@dataclass(frozen=True, slots=True)
class CancelPayout:
    payout_id: str
    note: _Note = None


@dataclass(frozen=True, slots=True)
class ApprovalView:
    by: Annotated[str, "As created_by, of who gave it."]
    at: Annotated[datetime, "When it was given."]
    note: Annotated[str | None, "What the approver wrote."]


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """How many approvals a payout needs whose ready rows add up to more than a sum."""

    above_cents: Annotated[Cents, "The sum, in shillings."]
    approvals: Annotated[int, "How many different people approve it: 1 to 5."]


def in_words(rules: Sequence[ApprovalRule]) -> str:
    """Rules on one line: `1 above UGX 0, 2 above UGX 5,000,000`."""
    return ", ".join(f"{rule.approvals} above UGX {grouped(rule.above_cents)}" for rule in rules)


@dataclass(frozen=True, slots=True)
class ApprovalRulesView:
    """The approval rules of a client, and those that wait for another person's confirmation."""

    approval_rules: tuple[ApprovalRule, ...]
    proposed_approval_rules: tuple[ApprovalRule, ...] | None


@dataclass(frozen=True, slots=True)
class ListPayouts(ListPeriod):
    """Request for a page of payouts, newest first."""

    status: PayoutStatus | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class ListPayoutItems(ListPage):
    """Request for rows of a payout in the order of their lines, of one state and of one match of names, or of all.

    With `unpaid_first` the rows come first that are not paid and not on their way.
    """

    payout_id: str
    state: ItemState | None = None
    name_match: NameMatch | None = None
    unpaid_first: bool = False


@dataclass(frozen=True, slots=True)
class StateSum:
    count: Annotated[int, "How many rows."]
    amount_cents: Annotated[Cents, "What they add up to, in shillings."]
    fee_cents: Annotated[Cents, "Their fees, in shillings."]


@dataclass(frozen=True, slots=True)
class RoundView:
    """The last round of a payout."""

    number: Annotated[int, "1 for the first round; each retry begins the next."]
    item_count: Annotated[int, "How many rows it has."]
    total_amount_cents: Annotated[Cents, "What its rows add up to, in shillings."]
    total_fee_cents: Annotated[Cents, "Their fees, in shillings."]
    created_by: Internal[str]


@dataclass(frozen=True, slots=True)
class PayoutView:
    payout_id: Annotated[str, "The payout."]
    reference: Annotated[str, "The client's own reference, unique for ever. Repeating a request with it is safe."]
    description: Annotated[str | None, "A description by the client."]
    status: Annotated[PayoutStatus, "`draft`, `approved` (nothing sent yet), `running`, `completed` or `cancelled`."]
    item_count: Annotated[int, "How many rows it has."]
    ready_count: Annotated[int, "How many rows of the draft can be sent."]
    invalid_count: Annotated[int, "How many rows of the draft cannot be sent."]
    succeeded_count: Annotated[int, "How many rows succeeded."]
    failed_count: Annotated[int, "How many rows failed."]
    queued_count: Annotated[int, "How many rows wait to be sent."]
    total_amount_cents: Annotated[Cents, "What the ready rows add up to, in shillings."]
    total_fee_cents: Annotated[Cents, "The fees of the ready rows, in shillings."]
    created_by: Annotated[str, "The id of the API key or person that made it; of operators, one made of their names."]
    approved_by: Annotated[str | None, "As created_by, of who approved it last; null before."]
    created_at: Annotated[datetime, "When it was created."]
    approved_at: Annotated[datetime | None, "When it was approved; null before."]
    completed_at: Annotated[datetime | None, "When every row was final; null before."]
    send_at: Annotated[datetime | None, "Nothing is sent before this time; null: sent once it is approved."]
    reserved_at: Annotated[datetime | None, "When its money was reserved; null before."]
    needs_money_at: Annotated[
        datetime | None,
        "When it was due and its money was missing; null otherwise. It is cancelled a day later, unless money comes.",
    ]
    approvals: Annotated[
        tuple[ApprovalView, ...], "Its approvals, oldest first. It is a `draft` until there are as many as it needs."
    ]
    withdrawn_at: Annotated[datetime | None, "When an approval was withdrawn last; null for none."]
    withdrawal_reason: Annotated[str | None, "Why an approval was withdrawn, or the draft of a revoked key cancelled."]
    cancel_note: Annotated[str | None, "What the canceller wrote."]
    round: Annotated[RoundView, "The last round. Status, approvals and times are its own; counts are of all rows."]


@dataclass(frozen=True, slots=True)
class PayoutStates(PayoutView):
    """A payout with the counts and sums of its rows by state."""

    states: Annotated[
        Mapping[ItemState, StateSum], "Counts and sums of the rows by their state; a state without rows is left out."
    ]


@dataclass(frozen=True, slots=True)
class FloatShortfall:
    """A provider whose float, when it was last read, is less than the ready rows of a payout need there."""

    provider: str
    needed_cents: int
    float_cents: int


@dataclass(frozen=True, slots=True)
class WaitingProvider:
    """A provider that takes no payments now, so that rows of a payout wait; `is_off`: operators switched it off."""

    provider: str
    is_off: bool


@dataclass(frozen=True, slots=True)
class PayoutDetails:
    """What the pages of a payout say beside its record.

    `replaced_by`: the corrected draft in its place. `unpaid_cents`: what its invalid rows add up to, as far as they can
    be read. `name_matches`: how many ready rows have which match of names, None for those that were not compared; of a
    draft the rows of its round. `counted_as_maker`: the people who count as one with a maker or an approver.
    """

    replaced_by: str | None
    shortfalls: tuple[FloatShortfall, ...]
    awaited: tuple[WaitingProvider, ...]
    unpaid_cents: int
    name_matches: Mapping[NameMatch | None, int]
    counted_as_maker: frozenset[str]
    approvals_needed: int


@dataclass(frozen=True, slots=True)
class CreatedPayout:
    """A payout, and whether an earlier request created it."""

    payout: PayoutStates
    replayed: bool


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt to pay a row."""

    number: Annotated[int, "1 for the first attempt."]
    transaction_id: Annotated[str, "Its transaction."]
    status: Annotated[TransactionStatus, "The status of the transaction."]
    failure: Annotated[Failure | None, "Why it failed; null for others."]
    at: Annotated[datetime, "When it was made."]


@dataclass(frozen=True, slots=True)
class PayoutItemView:
    """One row of a payout."""

    line: Annotated[int, "The row's number in the file, or its place in the list, from 1."]
    phone_number: Annotated[str | None, "The payee. In an invalid row, what was written."]
    amount_cents: Annotated[Cents | None, "Shillings; null where the row has no valid amount."]
    fee_cents: Annotated[Cents | None, "The fee that the client pays, in shillings."]
    reference: Annotated[
        str | None, "The client's own reference, unique for ever. Repeating a request with it is safe."
    ]
    description: Annotated[str | None, "A description by the client."]
    name: Annotated[str | None, "The payee's name, as the client wrote it."]
    name_match: Annotated[
        NameMatch | None, "How the name compares with the registered one: `same`, `similar`, `different` or `unknown`."
    ]
    state: Annotated[ItemState, "The state of the row."]
    problems: Annotated[tuple[str, ...], "What is wrong with the row, in sentences."]
    transaction_id: Annotated[str | None, "The disbursement of its last attempt; null before the row was sent."]
    failure: Annotated[Failure | None, "Why the row failed; null unless its state is `failed`."]
    registered_name: Annotated[str | None, "The name that the provider has for the number; null until it was asked."]
    is_name_awaited: Internal[bool]
    provider_transaction_id: Internal[str | None]
    amount_text: Annotated[str | None, "What stands where the amount should, in an invalid row; null otherwise."]
    warning: Annotated[str | None, "What an approver should look at, in words; null for nothing. It refuses nothing."]
    metadata: Annotated[
        Mapping[str, str] | None, "Further columns of the file, at most ten, by their headings; null for none."
    ]
    round: Annotated[int, "The last round that it is in."]
    attempts: Annotated[tuple[AttemptView, ...], "Every attempt to pay it, in their order."]
    retry_at: Annotated[
        datetime | None,
        "From when a failed row may be retried: its provider may take the failure back until then. Null while nobody "
        "knows, and where it may be retried already or never.",
    ]


def fields_of(row: Any) -> dict[str, str]:
    """The fields of a kept row, or of its view, as people type them."""
    amount = row.amount_text if row.amount_cents is None else str(shillings(row.amount_cents))
    kept = {name: amount if name == "amount" else getattr(row, name) for name in FIELDS}
    return {name: (value or "").strip() for name, value in kept.items()}
