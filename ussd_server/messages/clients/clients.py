"""Client companies and their people, as services use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CreateClient:
    """Create a client with a unique name (1 to 100 characters); `client_id` None: a new id."""

    name: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClientView:
    """A client as its operator sees it."""

    client_id: str
    name: str
    is_active: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ClientPage:
    """One page of clients; `next_cursor` is None on the last."""

    items: tuple[ClientView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class CreateUser:
    """Create a user of a client. `role` is owner, admin, developer or viewer."""

    client_id: str  # or the client's name
    email: str
    role: str
    password: str = field(repr=False)  # 12 to 256 characters


@dataclass(frozen=True, slots=True)
class UserView:
    """A person as the operator sees them."""

    user_id: str
    client_id: str
    email: str
    role: str
    is_active: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ServiceIdentifier:
    """The signed text by which a client names itself to the provider's support."""

    service_identifier: str
    client_id: str
    issued_at: datetime
