"""Client companies, their people, their logins and their audit trail, as services use them."""

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
class LogIn:
    """Sign a user in; the case of the e-mail address does not matter."""

    email: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RefreshLogin:
    """Continue a login."""

    refresh_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LogOut:
    """End this login, or every login of the same user."""

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
    """Ask for one page (1 to 100) of a client's audit trail, newest first."""

    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ListOperatorActions:
    """Ask for one page (1 to 100) of what operators did, newest first, with `operator` of one e-mail address."""

    cursor: str | None = None
    operator: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class AuditEventView:
    """Who did what to which object, when, and from where. `actor` is `user` or `operator`.

    `reason` is what an operator gave as the reason. `operator` and `client` (a name) are set for operators only.
    """

    id: str
    action: str
    actor: str
    user_id: str | None
    email: str | None
    object_id: str | None
    address: str
    request_id: str
    created_at: datetime
    reason: str | None = None
    operator: str | None = None
    client_id: str | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEventPage:
    """One page of an audit trail; `next_cursor` is None on the last."""

    items: tuple[AuditEventView, ...]
    next_cursor: str | None
