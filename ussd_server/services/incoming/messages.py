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


class NoticeStatus(StrEnum):
    """What became of a payment that a provider reported."""

    HELD = "held"
    BOOKED = "booked"


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

    account: str
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
    status: Annotated[NoticeStatus, "`booked`, or `held` for the operators."]


@dataclass(frozen=True, slots=True)
class IncomingPaths:
    """Where a provider sends its checks and notices, and the secret that signs the notices."""

    account: str
    path: str
    secret: str
