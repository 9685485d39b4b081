"""Messages about channels, and of the console's phone, which dials through a client's own channel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ussd_server.menus.engine.navigator import DisplayOptions
from ussd_server.menus.tools.walk import WalkScreen


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
class CreateChannel:
    """Create a channel.

    `client_id` None allows the codes of every client, `codes` empty every code. `cumulative` overrides what the gateway
    documents about its texts. `septets` (80 to 182) and `ucs2` (40 to 80) narrow the screens; `transliterates` replaces
    characters that phones lack.
    """

    adapter: str
    client_id: str | None = None
    name: str = ""
    codes: tuple[str, ...] = ()
    cumulative: bool | None = None
    transliterates: bool = True
    septets: int | None = None
    ucs2: int | None = None


@dataclass(frozen=True, slots=True)
class ChannelView:
    """A channel as its operator sees it; `gateway_path` is a credential."""

    channel_id: str
    client_id: str | None
    name: str
    adapter: str
    codes: tuple[str, ...]
    is_active: bool
    gateway_path: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class CachedChannel:
    """A channel as web processes cache it."""

    channel_id: str
    client_id: str | None
    adapter: str
    codes: tuple[str, ...]
    cumulative: bool | None
    display: DisplayOptions
