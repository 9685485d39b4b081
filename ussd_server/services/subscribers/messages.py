"""Messages about subscribers: the history of a phone number, and what is held about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from ussd_server.wire import Cents, ListPage, one_of

_Kind = Annotated[str, one_of("payment", "refund", "session", "message")]


@dataclass(frozen=True, slots=True)
class GetHistory(ListPage):
    """Request for a page (1 to 100 entries) of the history of a phone number, newest first."""

    phone_number: str


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    kind: Annotated[_Kind, "What it was."]
    id: Annotated[str, "The transaction, session or message."]
    at: Annotated[datetime, "When it began."]
    title: Annotated[str, "What it was, in a few words."]
    sentence: Annotated[str, "One sentence about it, which can be told to the subscriber."]
    amount_cents: Annotated[Cents | None, "Shillings; null for a session and a message."]
    status: Annotated[str, "The status of the transaction, session or message."]
    possible_double: Annotated[
        bool, "True for a payment that another of the same type and amount is within ten minutes of."
    ]


@dataclass(frozen=True, slots=True)
class History:
    """A page of the history of a phone number, newest first."""

    items: Annotated[tuple[HistoryEntry, ...], "What happened, newest first."]
    next_cursor: Annotated[str | None, "The `cursor` of the next page; null on the last."]


@dataclass(frozen=True, slots=True)
class ResetPin:
    """Request to remove the PIN of a phone number with the calling client."""

    phone_number: str


@dataclass(frozen=True, slots=True)
class PinReset:
    phone_number: Annotated[str, "The subscriber."]
    had_pin: Annotated[bool, "False when there was no PIN."]


@dataclass(frozen=True, slots=True)
class PinState:
    """Whether a phone number has a PIN with a client, and until when it is locked."""

    has_pin: bool
    locked_until: datetime | None


@dataclass(frozen=True, slots=True)
class PinLockedView:
    """A number that was locked after wrong PINs."""

    phone_number: Annotated[str, "The subscriber."]
    locked_until: Annotated[datetime, "When the lock ends; a reset of the PIN ends it before."]


@dataclass(frozen=True, slots=True)
class ErasePersonalData:
    """Request of two operators to remove what the law does not keep; `reason` has 1 to 200 characters."""

    phone_number: str
    by: str
    second: str
    reason: str


@dataclass(frozen=True, slots=True)
class PersonalData:
    """All that is held about a phone number: rows by the names of their tables, without secrets."""

    phone_number: str
    held: dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ErasedData:
    """How many rows were removed and kept, by table, and why the law keeps them."""

    phone_number: str
    removed: dict[str, int]
    kept: dict[str, int]
    why_kept: str
