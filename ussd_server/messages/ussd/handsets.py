"""Messages of the console's phone, which dials through a client's own channel."""

from __future__ import annotations

from dataclasses import dataclass, field

from ussd_server.messages.menus.walks import WalkScreen


@dataclass(frozen=True, slots=True)
class HandsetCall:
    """A call as the phone knows it, up to its newest entry.

    `session_id` is the gateway's name for the session. `dialled` are the entries dialled after the code, joined by `*`;
    `entries` were typed since. `language` is stored as the subscriber's choice when the call begins; None changes
    nothing.
    """

    session_id: str
    phone_number: str
    service_code: str
    network: str = ""
    language: str | None = None
    dialled: str = field(default="", repr=False)
    entries: tuple[str, ...] = field(default=(), repr=False)


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
