"""Messages about service codes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class AssignCode:
    """Give a service code (`*384*123#`) to a client."""

    service_code: str
    client_id: str


@dataclass(frozen=True, slots=True)
class BindCode:
    """Bind a service code of a client to one of its menus."""

    service_code: str
    menu_id: str


@dataclass(frozen=True, slots=True)
class CodeView:
    """A service code, its client, and its menu, None while it has none."""

    service_code: str
    client_id: str
    menu_id: str | None
    created_at: datetime
