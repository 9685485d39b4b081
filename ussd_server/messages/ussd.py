"""USSD sessions as the inside speaks of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ussd_server.messages.gateways import Action


class SessionStatus(StrEnum):
    """Where a session stands (wire contract 3.4); all but the first are final."""

    ACTIVE = "active"
    COMPLETED = "completed"
    TIMED_OUT = "timed_out"
    ENDED_BY_USER = "ended_by_user"
    ENDED_BY_CLIENT = "ended_by_client"
    INVALIDATED = "invalidated"
    FAILED = "failed"


class EndReason(StrEnum):
    """Why a session is over, in one word."""

    LAST_SCREEN = "last_screen"
    NOT_DELIVERED = "not_delivered"
    HUNG_UP = "hung_up"
    ABANDONED = "abandoned"
    REDIALLED = "redialled"
    IDLE = "idle"
    TOO_LONG = "too_long"
    TOO_MANY_TURNS = "too_many_turns"
    DELETED = "deleted"
    KEY_DELETED = "api_key_deleted"


@dataclass(frozen=True, slots=True)
class BeginSession:
    """A wish to dial `service_code` for a subscriber; `text` holds further entries, joined by `*`."""

    phone_number: str
    service_code: str
    network: str = ""
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class EnterText:
    """What the subscriber typed. `turn` is the number of this entry, counted from 1; None takes it for the next one."""

    session_id: str
    text: str = field(repr=False)
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class NameSession:
    """A session, named to be seen or to be ended."""

    session_id: str


@dataclass(frozen=True, slots=True)
class ListSessions:
    """A wish to see a page of sessions, newest first. `from_at` is included, `to_at` is not."""

    limit: int = 50
    cursor: str | None = None
    status: SessionStatus | None = None
    phone_number: str | None = None
    service_code: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn of a transcript: what was entered (secrets masked), and the screen that answered it."""

    turn: int
    entry: str
    screen: str
    node: str
    septets: int
    took_ms: int
    at: datetime


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as its client sees it; `transcript` only where one session is asked for."""

    session_id: str
    phone_number: str
    service_code: str
    network: str
    status: SessionStatus
    end_reason: str | None
    action: Action
    message: str
    menu_id: str
    menu_version: int
    node: str
    language: str
    turn: int
    transaction_id: str | None
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    transcript: tuple[TurnView, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of sessions and where the next one begins."""

    items: tuple[SessionView, ...]
    next_cursor: str | None
