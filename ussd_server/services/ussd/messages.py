"""Messages of USSD: sessions, channels, and the console's phone, which dials through a client's own channel."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from ussd_server.gateways.messages import Action
from ussd_server.menus.engine.navigator import DisplayOptions
from ussd_server.menus.tools.walk import WalkScreen
from ussd_server.wire import ListPeriod


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
class ListSessions(ListPeriod):
    """List sessions, newest first."""

    status: SessionStatus | None = None
    phone_number: str | None = None
    service_code: str | None = None


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn of a transcript: the entry (secrets masked) and the screen that answered it."""

    turn: Annotated[int, "The number of the entry, counted from 1."]
    entry: Annotated[str, "What was entered; a secret is shown as stars."]
    screen: Annotated[str, "The screen as the phone shows it."]
    node: Annotated[str, "The node of the menu document."]
    septets: Annotated[int, "The length of the screen on the wire."]
    took_ms: Annotated[int, "How long it took, in milliseconds."]
    at: Annotated[datetime, "When the reply was sent."]


@dataclass(frozen=True, slots=True)
class SessionView:
    session_id: Annotated[str, "The USSD session."]
    phone_number: Annotated[str, "The subscriber: `+256` and nine digits."]
    service_code: Annotated[str, "What the phone dials, such as `*165#`."]
    network: Annotated[str | None, "The mobile network code, such as `64110` for MTN."]
    status: Annotated[SessionStatus, "The status."]
    end_reason: Annotated[str | None, "Why the session ended; null while it is active."]
    action: Annotated[Action, "`continue` while the session waits for an entry, `end` when it is over."]
    message: Annotated[str, "The screen."]
    menu_id: Annotated[str, "The menu, by the `id` in its document."]
    menu_version: Annotated[int, "The published version that this session uses until its end."]
    node: Annotated[str, "The node of the menu document."]
    language: Annotated[str, "The language of the screen, such as `en` or `lg`."]
    turn: Annotated[int, "How many entries were answered."]
    transaction_id: Annotated[str | None, "The payment that this session created."]
    created_at: Annotated[datetime, "When it was created."]
    last_seen_at: Annotated[datetime, "When the last entry arrived."]
    expires_at: Annotated[datetime, "When the session ends unless another entry arrives."]
    ended_at: Annotated[datetime | None, "When the session ended; null while it is active."]


@dataclass(frozen=True, slots=True)
class SessionTranscript(SessionView):
    transcript: Annotated[tuple[TurnView, ...], "All turns, in order."]


@dataclass(frozen=True, slots=True)
class HandsetView:
    """What the phone shows, and the session behind it. `visited` are the nodes of all its screens, oldest first.

    Without a session (`session_id` None) the screen is the gateway's error screen.
    """

    screen: WalkScreen
    visited: tuple[str, ...] = ()
    session_id: str | None = None
    menu_id: str | None = None
    version: int | None = None
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True)
class SmppOptions:
    """How a channel reaches its operator by SMPP.

    `url` is `smpp://HOST:PORT`, or `smpps://` for TLS; `authority` is a certificate (PEM) in place of
    the public ones.
    `dialect` is a name of `ussd_server/smpp/dialects.py`, or parts such as `end=32`. `binds` are held by each process,
    1 to 16; `window` is the number of submits without an answer on each, 1 to 1,000.
    """

    url: str
    system_id: str
    password: str = field(repr=False)
    dialect: str = "default"
    binds: int = 2
    window: int = 10
    authority: str | None = None


@dataclass(frozen=True, slots=True)
class SmppBindView:
    """One bind of a channel. `state` is `bound`, `connecting`, `waiting`, or `silent` when its process is."""

    channel_id: str
    process: str
    number: int
    state: str
    reason: str
    since: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class CreateChannel:
    """Create a channel.

    `client_id` None allows the codes of every client, `codes` empty every code. `cumulative` overrides what the gateway
    documents about its texts. `septets` (80 to 182) and `ucs2` (40 to 80) narrow the screens; `transliterates` replaces
    characters that phones lack. `smpp` is set for the adapter `smpp`, and for no other.
    """

    adapter: str
    client_id: str | None = None
    name: str = ""
    codes: tuple[str, ...] = ()
    cumulative: bool | None = None
    transliterates: bool = True
    septets: int | None = None
    ucs2: int | None = None
    smpp: SmppOptions | None = None


@dataclass(frozen=True, slots=True)
class ChannelView:
    """A channel as its operator sees it; `gateway_path` is a credential, and empty for SMPP.

    `smpp_url` and `binds` are of SMPP alone.
    """

    channel_id: str
    client_id: str | None
    name: str
    adapter: str
    codes: tuple[str, ...]
    is_active: bool
    gateway_path: str
    created_at: datetime
    smpp_url: str | None = None
    binds: tuple[SmppBindView, ...] = ()


@dataclass(frozen=True, slots=True)
class CachedChannel:
    """A channel as web processes cache it."""

    channel_id: str
    client_id: str | None
    adapter: str
    codes: tuple[str, ...]
    cumulative: bool | None
    display: DisplayOptions
