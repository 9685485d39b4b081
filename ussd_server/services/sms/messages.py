"""Messages about SMS: their states, the requests of clients, and the views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

from ussd_server.senders.messages import SmsFailure
from ussd_server.wire import ListPeriod


class SmsStatus(StrEnum):
    """The state of a message; the values are stored."""

    QUEUED = "queued"
    SENT = "sent"
    DELIVERED = "delivered"
    FAILED = "failed"
    UNKNOWN = "unknown"


MOST_PARTS = 5
"""The most parts of a message by the API."""


@dataclass(frozen=True, slots=True)
class CreateSms:
    """Send `text` to `phone_number`, once for each `reference` (1 to 64 characters)."""

    phone_number: str
    text: str
    reference: str


@dataclass(frozen=True, slots=True)
class ListSms(ListPeriod):
    """A page of messages, newest first. `transaction_id` is the payment whose receipt they are."""

    status: SmsStatus | None = None
    phone_number: str | None = None
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True)
class SmsProblem:
    """Why a message did not arrive."""

    code: Annotated[SmsFailure, "The reason, one of a closed set."]
    message: Annotated[str, "The reason in words."]


@dataclass(frozen=True, slots=True)
class SmsView:
    message_id: Annotated[str, "The identifier, a UUID."]
    reference: Annotated[str, "The client's own name for it; `ussd/` or `receipt/` begins those of menus and receipts."]
    phone_number: Annotated[str, "`+256` and nine digits."]
    text: Annotated[str, "The text."]
    parts: Annotated[int, "In how many parts it is sent; each is paid for."]
    status: Annotated[
        SmsStatus,
        "`queued`: waits to be sent; `sent`: the sender has it; `delivered` and `failed`: its delivery report; "
        "`unknown`: the sender's answer was lost, and the message is not sent again.",
    ]
    failure: Annotated[SmsProblem | None, "Why it failed; null otherwise."]
    transaction_id: Annotated[str | None, "The payment whose receipt it is; null for others."]
    created_at: Annotated[datetime, "When it was created."]
    completed_at: Annotated[datetime | None, "When its status became final; null before."]


@dataclass(frozen=True, slots=True)
class UpdateReceipts:
    """The receipts that change: texts by language for each type of payment; no text for one that gets none any more."""

    receipts: Mapping[str, Mapping[str, str]]


class ReceiptPreview(NamedTuple):
    """A receipt with example values: its text, its length in characters, and its parts, at most those of any values."""

    text: str
    length: int
    parts: int
    most_parts: int


class CreatedSms(NamedTuple):
    """A message, and whether an equal request created it before."""

    message: SmsView
    replayed: bool
