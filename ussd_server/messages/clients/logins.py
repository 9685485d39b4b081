"""Messages about logins of a client's people."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogIn:
    """Sign a user in; the case of the e-mail address does not matter.

    `code` is a TOTP code or a recovery code, which a person with a second factor needs.
    """

    email: str
    password: str = field(repr=False)
    code: str | None = field(default=None, repr=False)


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
