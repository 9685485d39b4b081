"""Messages about payment codes and incoming payments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from ussd_server.services.transactions.messages import MAIN_ACCOUNT
from ussd_server.wire import Cents, Length

CODE_DESCRIPTION = Length(1, 100)


@dataclass(frozen=True, slots=True)
class PutPaymentCode:
    """Create a payment code, or replace what an existing one says.

    `amount_cents` is the only amount that is taken; `min_amount_cents` and `max_amount_cents` are bounds instead.
    """

    code: str
    description: Annotated[str, CODE_DESCRIPTION]
    account: str = MAIN_ACCOUNT
    amount_cents: int | None = None
    min_amount_cents: int | None = None
    max_amount_cents: int | None = None
    expires_at: datetime | None = None
    single_use: bool = False


@dataclass(frozen=True, slots=True)
class PaymentCodeView:
    code: Annotated[str, "The code: the client's prefix, then 1 to 14 letters and digits, in upper case."]
    description: Annotated[str, "What is paid with it."]
    account: Annotated[str, "The account that is credited: `main`, or a subscriber's phone number."]
    amount_cents: Annotated[Cents | None, "The only amount that is taken, in shillings; null: any within the bounds."]
    min_amount_cents: Annotated[Cents | None, "The least amount in shillings; null: none."]
    max_amount_cents: Annotated[Cents | None, "The largest amount in shillings; null: none."]
    expires_at: Annotated[datetime | None, "From when payments with it are held; null: never."]
    single_use: Annotated[bool, "Whether only one payment is taken."]
    used_at: Annotated[datetime | None, "When the first payment with it was booked; null: not yet."]
    created_at: Annotated[datetime, "When it was created."]
    updated_at: Annotated[datetime, "When it last changed."]


@dataclass(frozen=True, slots=True)
class SetPrefix:
    """Give a client the letters with which its payment codes begin: 2 to 6 letters from A to Z."""

    client_id: str
    prefix: str


@dataclass(frozen=True, slots=True)
class PrefixView:
    client_id: str
    client: str
    prefix: str


class IncomingStatus(StrEnum):
    """What became of an incoming payment; the values are stored."""

    HELD = "held"
    BOOKED = "booked"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class CheckPayment:
    """A provider asks, before a payer pays, whether a payment would be taken. Without an amount, any amount."""

    code: str
    amount_cents: int | None = None
    phone_number: str | None = None


@dataclass(frozen=True, slots=True)
class PaymentCheck:
    """The answer to a check; `name` is who is paid, None when the payment would be held."""

    accepted: Annotated[bool, "Whether the payment would be taken."]
    name: Annotated[str | None, "Who is paid; null when it would not be taken."]
    message: Annotated[str, "What is paid, or why it would not be taken."]


@dataclass(frozen=True, slots=True)
class NotifyPayment:
    """A provider reports that a payer has paid; `code` is what the payer typed, `at` is when, None for now."""

    provider: str
    provider_transaction_id: str
    code: str | None
    amount_cents: int
    phone_number: str | None
    at: datetime | None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class NotifiedPayment:
    """What became of a reported payment."""

    transaction_id: Annotated[str | None, "The transaction; null while the payment is held."]
    status: Annotated[IncomingStatus, "`booked`, or `held` for the operators."]


@dataclass(frozen=True, slots=True)
class IncomingPaths:
    """Where a provider sends its checks and notices, and the secret that signs the notices."""

    provider: str
    path: str
    secret: str


@dataclass(frozen=True, slots=True)
class IncomingView:
    """An incoming payment as operators see it.

    `code` is what the payer typed. `suggestions` are up to three payment codes that it probably meant.
    """

    incoming_id: Annotated[str, "The incoming payment."]
    provider: Annotated[str, "The provider."]
    provider_transaction_id: Annotated[str, "The provider's receipt."]
    amount_cents: Annotated[Cents, "Shillings."]
    code: Annotated[str | None, "What the payer typed; null for a line of a statement."]
    phone_number: Annotated[str | None, "The payer; null where the statement does not say it."]
    name: Annotated[str | None, "The payer's name, where the provider said it."]
    paid_at: Annotated[datetime | None, "When the payer paid; null for a line of a statement."]
    status: Annotated[IncomingStatus, "`held`, `booked` or `returned`."]
    held_because: Annotated[str | None, "Why it was held; null if it was not."]
    suggestions: Annotated[tuple[str, ...], "Up to three codes that the payer may have meant."]
    transaction_id: Annotated[str | None, "The transaction; null until it is booked."]
    waits_for: Annotated[str | None, "The collection whose money it may be; null for none."]
    decided_by: Annotated[str | None, "The operators who assigned or returned it; null for none."]
    reason: Annotated[str | None, "Why it is returned; null if it is not."]
    received_at: Annotated[datetime, "When it was reported here."]


@dataclass(frozen=True, slots=True)
class HeldLikeOwn:
    """A held payment as a client sees it whose codes it resembles: not the payer, because it may be another client's.

    `meant` are the client's codes that differ by one slip.
    """

    provider: str
    provider_transaction_id: str
    amount_cents: int
    code: str
    received_at: datetime
    meant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AssignIncoming:
    """Request of two operators to book a held payment under a payment code."""

    incoming_id: str
    code: str
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class SameIncoming:
    """Request of two operators to give the receipt of a held payment to the collection that it waits for."""

    incoming_id: str
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class ReturnIncoming:
    """Request of two operators to mark a held payment for return. `reason` has 1 to 200 characters."""

    incoming_id: str
    reason: str
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class HoldDifference:
    """Request to hold a statement's credit that no transaction of ours matches; `by` is the name of the operator."""

    difference_id: str
    by: str = "operator"
