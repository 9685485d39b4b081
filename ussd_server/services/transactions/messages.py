"""Messages about transactions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from ussd_server.providers.failures import Fault, Retry
from ussd_server.providers.messages import ProviderName
from ussd_server.wire import WEB_ADDRESS, Cents, Length, ListPeriod, SignedCents, Sparse, one_of


class TransactionType(StrEnum):
    """What a transaction is. Clients create the first three; the others have methods of their own."""

    COLLECTION = "collection"
    DISBURSEMENT = "disbursement"
    TRANSFER = "transfer"
    REFUND = "refund"
    DEPOSIT = "deposit"
    SETTLEMENT = "settlement"
    CORRECTION = "correction"


class Origin(StrEnum):
    """Who began a transaction: the client, its menu, or the payer at a till or in the provider's own menu."""

    CLIENT = "client"
    USSD = "ussd"
    PAYER = "payer"


class Effect(StrEnum):
    """What a correction does to the client's account."""

    CREDIT = "credit"
    DEBIT = "debit"


class MakerKind(StrEnum):
    KEY = "key"
    PERSON = "person"
    MENU = "menu"
    PAYER = "payer"
    OPERATOR = "operator"


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
    SUBMIT = "submit"
    CALLBACK = "callback"
    POLL = "poll"
    OPERATOR = "operator"


MAIN_ACCOUNT = "main"
REFERENCE, DESCRIPTION = Length(1, 64), Length(1, 200)
"""The bounds of a reference and of a description, wherever one is given."""

_Purpose = Annotated[
    str, one_of("amount", "fee", "shortfall", "amount_reserved", "fee_reserved", "amount_released", "fee_released")
]


@dataclass(frozen=True, slots=True)
class ViaMenu:
    id: Annotated[str | None, "The id of the menu."]
    title: Annotated[str | None, "Its title; null where it has none."]


@dataclass(frozen=True, slots=True)
class MadeBy:
    kind: Annotated[MakerKind, "`key`, `person`, `menu`, `payer` or `operator`."]
    id: Annotated[str | None, "The id of the API key, the person or the menu; null for payers and operators."]
    name: Annotated[
        str | None,
        "The name of the key, a person's e-mail address, the menu's title, the payer's provider or the operator's "
        "name; null where it has none.",
    ]
    via_menu: Annotated[
        ViaMenu | None, "The menu in which a key made the payment, by a conversation that it led; null otherwise."
    ] = None


@dataclass(frozen=True, slots=True)
class PayingMenu:
    """A version of a menu that pays: the menu's row id, and the number of the version.

    `name` and `title` are the id and the title of its document, for the record of the payment.
    """

    menu_id: str
    version: int
    name: str | None = None
    title: str | None = None


class Undigested:
    """Marks a field of a request that is no content: a repeat may have another value."""


class NotCopied:
    """Marks content that has no column of its name, or one that the service writes by itself."""


@dataclass(frozen=True, slots=True)
class CreateTransaction:
    """Request for a collection, a disbursement or a transfer.

    `phone_number` is the subscriber (for a transfer: whose account is debited), `amount_cents` 1 to 99_999_999,
    `reference` the client's own name for it (unique for the client for ever), `account` is `main`
    or a subscriber's phone number. `session_id` and `confirmation` name the step of a conversation that requests it;
    `menu_step` is gateway, session and node: it identifies the step even after sessions are deleted, and the provider
    reference is derived from it. `menu` is the version of the menu that requests it.
    `wait` holds the reply up to that many seconds (0 to 25) until the transaction is final.
    """

    type: Annotated[TransactionType, NotCopied()]
    phone_number: str
    amount_cents: Annotated[int, NotCopied()]
    reference: Annotated[str, REFERENCE, NotCopied()]
    currency: Annotated[str, NotCopied()] = "UGX"
    to_phone_number: str | None = None
    provider: Annotated[str | None, NotCopied()] = None
    account: str = MAIN_ACCOUNT
    description: Annotated[str | None, "A description by the client.", DESCRIPTION] = None
    metadata: Annotated[dict[str, Any] | None, "A JSON object by the client; stored and returned.", Length(0, 4096)] = (
        None
    )
    callback_url: Annotated[
        str | None,
        "Where this transaction's events are sent, beside the client's webhooks.",
        WEB_ADDRESS,
    ] = None
    idempotency_key: Annotated[str | None, Undigested()] = None
    session_id: Annotated[str | None, Undigested()] = None
    confirmation: Annotated[str | None, Undigested()] = None
    menu_step: Annotated[tuple[str, ...] | None, Undigested()] = None
    menu: Annotated[PayingMenu | None, Undigested()] = None
    wait: Annotated[int, Undigested()] = 0


@dataclass(frozen=True, slots=True)
class CreateRefund:
    """Request to refund a succeeded collection; `amount_cents` None refunds what is left.

    People must give a `reason`. `wait` holds the reply up to that many seconds (0 to 25)
    until the refund is final.
    """

    transaction_id: str
    reference: Annotated[str, REFERENCE]
    amount_cents: int | None = None
    reason: Annotated[
        str | None, "Why; it becomes the refund's `description`, and stands in the audit trail.", DESCRIPTION
    ] = None
    idempotency_key: str | None = None
    wait: int = 0


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
    """An operator's deposit to a client's main account. `by` is the operator's name."""

    client_id: str
    amount_cents: int
    reference: str
    description: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class GetTransaction:
    """Request for one transaction with its history; `wait` holds the reply up to that many seconds for a change."""

    transaction_id: str
    wait: int = 0


@dataclass(frozen=True, slots=True)
class ListTransactions(ListPeriod):
    """Request for a page of transactions, newest first.

    `key_id` is the API key that made them, or the payout that they belong to.
    """

    status: TransactionStatus | None = None
    type: TransactionType | None = None
    phone_number: str | None = None
    reference: str | None = None
    provider_transaction_id: str | None = None
    payout_id: str | None = None
    key_id: str | None = None
    amount_cents: int | None = None


@dataclass(frozen=True, slots=True)
class WriteNote:
    """Request of a person to write a note, of 1 to 200 characters, on a payment."""

    transaction_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A note on a payment. `email` is the person's, None for the operator."""

    at: datetime
    email: str | None
    text: str


@dataclass(frozen=True, slots=True)
class EqualPayment:
    """Request for a recent payment that is the same as one that a person is about to make."""

    type: TransactionType
    phone_number: str
    amount_cents: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a transaction failed, whose fault it was and whether a retry helps."""

    code: Annotated[str, "The error code; the same for every provider."]
    message: Annotated[str, "A sentence for people."]
    fault: Annotated[Fault, "Who caused it: `payer`, `payee`, `client`, `provider` or `service`."]
    retry: Annotated[Retry, "Whether a retry helps: `no`, `new_attempt`, `after_user_action` or `wait`."]


@dataclass(frozen=True, slots=True)
class ChangeDetail(Sparse):
    """What is known about the cause of a status change."""

    attempt: Annotated[int | None, "How often the payment had been sent by then, counted from 1."] = None
    sent: Annotated[str | None, "What was sent to the provider: `payment` or `status_query`."] = None
    left_machine: Annotated[bool | None, "False when the request certainly never left this machine."] = None
    provider_code: Annotated[
        str | None, "The provider's own code; of a refused call the HTTP status and its first words."
    ] = None
    code: Annotated[str | None, "Our code: a failure code, or the outcome of the call in capitals."] = None
    took_ms: Annotated[int | None, "How long it took, in milliseconds."] = None
    note: Annotated[str | None, "A reason that an operator gave."] = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a status change added to an account, or took from it."""

    account: Annotated[str, "The account: `main`, a phone number, or one of ours, such as `provider:mtn`."]
    amount_cents: Annotated[
        SignedCents, "Shillings: positive for what the account received, negative for what it gave."
    ]
    purpose: Annotated[
        _Purpose,
        "`amount`, `fee`, or `shortfall` for what was lacking; with `_reserved` or `_released` where money was only "
        "set aside or freed.",
    ]


@dataclass(frozen=True, slots=True)
class TransactionChange:
    """One status change of a transaction, what caused it, and its entries in the ledger."""

    status: Annotated[TransactionStatus, "The status."]
    source: Annotated[Source, "Where the change came from: `submit`, `callback`, `poll` or `operator`."]
    detail: Annotated[ChangeDetail, "Further details of the change."]
    ledger: Annotated[tuple[LedgerEntry, ...], "The entries in the ledger that this change made."]
    created_at: Annotated[datetime, "When it was created."]


@dataclass(frozen=True, slots=True)
class TransactionView:
    transaction_id: Annotated[str, "The transaction."]
    reference: Annotated[str, "The client's own reference, unique for ever. Repeating a request with it is safe."]
    type: Annotated[TransactionType, "The type."]
    phone_number: Annotated[str | None, "The subscriber: `+256` and nine digits."]
    to_phone_number: Annotated[str | None, "Transfers only: the subscriber whose account is credited."]
    amount_cents: Annotated[Cents, "Shillings."]
    fee_cents: Annotated[Cents, "The fee that the client pays, in shillings."]
    currency: Annotated[str, "`UGX`."]
    account: Annotated[str, "`main`, or the phone number of a subscriber for whom the client keeps an account here."]
    provider: Annotated[ProviderName | None, "The provider; null where none moves the money."]
    provider_reference: Annotated[str | None, "Our reference at the provider."]
    provider_transaction_id: Annotated[str | None, "The provider's own identifier, once it is known."]
    status: Annotated[TransactionStatus, "The status."]
    failure: Annotated[Failure | None, "Why it failed; null unless the status is `failed`."]
    late: Annotated[bool, "True when the success arrived after the status was already `failed`."]
    session_id: Annotated[str | None, "The USSD session."]
    description: Annotated[str | None, "A description by the client."]
    metadata: Annotated[dict[str, Any] | None, "A JSON object by the client; stored and returned."]
    created_at: Annotated[datetime, "When it was created."]
    updated_at: Annotated[datetime, "When it last changed."]
    completed_at: Annotated[datetime | None, "When it became final; null before."]
    next_check_at: Annotated[datetime | None, "When the provider is queried next; null when no query is planned."]
    refund_of: Annotated[str | None, "The collection that this refund, or correction, gives back; null for none."]
    refunded_amount_cents: Annotated[Cents, "What refunds of it have taken or hold, in shillings."]
    payout_id: Annotated[str | None, "The payout that it belongs to; null for none."]
    origin: Annotated[
        Origin, "Who began it: `client`, `ussd` for a menu, or `payer` for money that came with a payment code."
    ]
    same_money_as: Annotated[
        str | None, "The other transaction that tells of the same money; null for none. The one that succeeded counts."
    ]
    effect: Annotated[Effect | None, "What a correction does: `credit` or `debit`; null for everything else."]
    corrects: Annotated[str | None, "The transaction that this correction corrects; null for none."]
    reason: Annotated[str | None, "Why the operators made this correction; null for everything else."]
    made_by: Annotated[MadeBy, "Who made it; of a row of a payout, who made the payout."]
    request_id: Annotated[str | None, "The `X-Request-Id` of the call that made it; of a payout's row, approved it."]


@dataclass(frozen=True, slots=True)
class TransactionHistory(TransactionView):
    explanation: Annotated[str, "One sentence: where the money is now, and what happens next."]
    events: Annotated[tuple[TransactionChange, ...], "The status history, oldest first."]


@dataclass(frozen=True, slots=True)
class CreatedTransaction:
    """A transaction, and whether an earlier request created it."""

    transaction: TransactionView
    replayed: bool
