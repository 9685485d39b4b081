"""Client companies, their people, their logins and their audit trail, as the inside speaks of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CreateClient:
    """An operator's wish for a client, whose name (1 to 100 characters) is its own; `client_id` None: a fresh one."""

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
class CreateUser:
    """An operator's wish for a person who signs in for a client. `role` is owner, admin, developer or viewer."""

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
class LogIn:
    """A person's wish to sign in; the case of the e-mail address does not matter."""

    email: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RefreshLogin:
    """A wish to go on with a login."""

    refresh_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LogOut:
    """A wish to end this login, or every login of the same person."""

    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class LoginView:
    """What a login gives: both tokens, how many seconds each is good for, and what the person may do."""

    access_token: str = field(repr=False)
    token_type: str
    expires_in: int
    refresh_token: str = field(repr=False)
    refresh_expires_in: int
    client_id: str
    permissions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServiceIdentifier:
    """The signed text by which a client names itself to the provider's support."""

    service_identifier: str
    client_id: str
    issued_at: datetime


@dataclass(frozen=True, slots=True)
class ListAuditEvents:
    """A wish for one page (1 to 100) of a client's audit trail, newest first."""

    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class AuditEventView:
    """Who did what to which object, when, and from where. `actor` is `user` or `operator`."""

    id: str
    action: str
    actor: str
    user_id: str | None
    email: str | None
    object_id: str | None
    address: str
    request_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AuditEventPage:
    """One page of an audit trail; `next_cursor` is None on the last."""

    items: tuple[AuditEventView, ...]
    next_cursor: str | None
