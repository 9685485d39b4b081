"""Channels and service codes as the inside speaks of them: the ways in, and what phones dial."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CreateChannel:
    """An operator's wish to let a phone company in.

    `client_id` None lets it carry the codes of every client, `codes` empty every code. `cumulative` overrules what the
    company documents about its texts. `septets` and `ucs2` narrow the screens (80 to 182, 40 to 80); `transliterates`
    writes characters that phones lack with others.
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
    """The channel that a phone company's call came in by, as its path named it."""

    channel_id: str
    client_id: str | None
    adapter: str
    codes: tuple[str, ...] = ()
    cumulative: bool | None = None
    transliterates: bool = True
    septets: int | None = None
    ucs2: int | None = None


@dataclass(frozen=True, slots=True)
class AssignCode:
    """An operator's wish to give a service code (`*384*123#`) to a client."""

    service_code: str
    client_id: str


@dataclass(frozen=True, slots=True)
class BindCode:
    """A client's wish to let one of its menus answer one of its codes."""

    service_code: str
    menu_id: str


@dataclass(frozen=True, slots=True)
class CodeView:
    """A service code, whose it is, and the menu that answers, None while none does."""

    service_code: str
    client_id: str
    menu_id: str | None
    created_at: datetime
