"""Messages of USSD sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ussd_server.gateways.messages import Action


class SessionStatus(StrEnum):
    """The status of a session; all but ACTIVE are final."""

    ACTIVE = "active"
    COMPLETED = "completed"
    TIMED_OUT = "timed_out"
    ENDED_BY_USER = "ended_by_user"
    ENDED_BY_CLIENT = "ended_by_client"
    INVALIDATED = "invalidated"
    FAILED = "failed"


DROPPED_OFF = (SessionStatus.TIMED_OUT, SessionStatus.ENDED_BY_USER, SessionStatus.FAILED)
"""The statuses of a session that ended before its last screen, at a node where the subscriber dropped off."""


class EndReason(StrEnum):
    """Why a session ended."""

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
    """Dial `service_code` for a subscriber; `text` holds further entries, joined by `*`."""

    phone_number: str
    service_code: str
    network: str = ""
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class EnterText:
    """An entry of a subscriber. `turn` is its number, counted from 1; None means the next one."""

    session_id: str
    text: str = field(repr=False)
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class NameSession:
    """Read or end a session."""

    session_id: str


@dataclass(frozen=True, slots=True)
class ListSessions:
    """List sessions, newest first. `from_at` is included, `to_at` is not."""

    limit: int = 50
    cursor: str | None = None
    status: SessionStatus | None = None
    phone_number: str | None = None
    service_code: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn of a transcript: the entry (secrets masked) and the screen that answered it."""

    turn: int
    entry: str
    screen: str
    node: str
    septets: int
    took_ms: int
    at: datetime


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as its client sees it; `transcript` only for a single session."""

    session_id: str
    phone_number: str
    service_code: str
    network: str | None
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
    """A page of sessions and the cursor of the next page."""

    items: tuple[SessionView, ...]
    next_cursor: str | None
