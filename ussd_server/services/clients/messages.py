"""Messages about client companies, their people, logins and second factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from ussd_server.services.payouts.messages import ApprovalRule


@dataclass(frozen=True, slots=True)
class CreateClient:
    """Create a client with a unique name (1 to 100 characters); `client_id` None: a new id."""

    name: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClientView:
    client_id: str
    name: str
    is_active: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class CreateUser:
    """Create a user of a client. `role` is owner, admin, developer or viewer. `is_first`: the client must have none."""

    client_id: str  # or the client's name
    email: str
    role: str
    password: str = field(repr=False)  # 12 to 256 characters
    is_first: bool = False


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

    service_identifier: Annotated[str, "A signed name of the client, to quote to support."]
    client_id: Annotated[str, "The client."]
    issued_at: Annotated[datetime, "When it was issued."]


@dataclass(frozen=True, slots=True)
class UpdateClientSettings:
    """The settings that change; None for one that stays as it is.

    `receipts` are texts by language for each type of payment; no text for one that gets none any more.
    `approval_rules` are pairs: a sum in cents, and how many approvals a payout above it needs.
    """

    receipts: Mapping[str, Mapping[str, str]] | None = None
    approval_rules: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client has set for itself."""

    receipts: Annotated[
        Mapping[str, Mapping[str, str]],
        "Messages to subscribers about payments that succeeded: texts by type of payment and language.",
    ]
    approval_rules: Annotated[
        tuple[ApprovalRule, ...], "How many different people approve a payout: the last rule whose sum it is above."
    ]
    proposed_approval_rules: Annotated[
        tuple[ApprovalRule, ...] | None,
        "Rules that ask for less than these, until another owner or admin, or the operator, confirms them.",
    ]


@dataclass(frozen=True, slots=True)
class LogIn:
    """Sign a client's person or an operator in; the case of the e-mail address does not matter.

    `code` is a TOTP code or a recovery code, which an operator and a person with a second factor need.
    """

    email: str
    password: str = field(repr=False)
    code: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ChangePassword:
    """Request of a person for another password of their own: 12 to 256 printable characters."""

    present: str = field(repr=False)
    wanted: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoginView:
    access_token: Annotated[str, "The JWT that management calls carry as `Authorization: Bearer`."] = field(repr=False)
    token_type: Annotated[str, "`Bearer`."]
    expires_in: Annotated[int, "Seconds until the access token expires."]
    refresh_token: Annotated[str, "Exchange it for new tokens. It works once."] = field(repr=False)
    refresh_expires_in: Annotated[int, "Seconds until the refresh token expires."]
    client_id: Annotated[str, "The client."]
    permissions: Annotated[tuple[str, ...], "What this login may do, as `resource:action`."]


@dataclass(frozen=True, slots=True)
class NewFactor:
    """A TOTP secret that is not in use yet, and its `otpauth:` address."""

    secret: str = field(repr=False)
    uri: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OwnFactor:
    """The caller's second factor. `since` is None without one; `is_required`: all people of the client need one."""

    since: datetime | None
    recovery_codes_left: int
    is_required: bool


@dataclass(frozen=True, slots=True)
class InvitePerson:
    """Make a person of the caller's client, who chooses a password by a link. `role` is one of the four roles.

    The link is mailed to the person; with `shows_link`, and where no mail is sent, it is shown to the caller instead.
    """

    email: str
    role: str
    shows_link: bool = False


@dataclass(frozen=True, slots=True)
class ChangeRole:
    user_id: str
    role: str


@dataclass(frozen=True, slots=True)
class OpenLogin:
    """A login that has not ended: from which address, since when and until when at the latest."""

    login_id: str
    address: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class PersonView:
    """A person as their team sees them.

    `state` is `active`, `invited` (no password chosen yet) or `disabled`. `logins` are the open ones, newest
    first, 50 at most, and `counts_as` the e-mail addresses of the people who count as one person with them when payouts
    are approved; both only where one person is asked for. `needs_confirmation`: until another person has confirmed
    them, they count as the people who gave them their role or saw the link of their password. `may_confirm`: the caller
    is such another person.
    """

    user_id: str
    email: str
    role: str
    state: str
    created_at: datetime
    updated_at: datetime
    logins: tuple[OpenLogin, ...]
    counts_as: tuple[str, ...] = ()
    needs_confirmation: bool = False
    may_confirm: bool = False


@dataclass(frozen=True, slots=True)
class PasswordLink:
    """The secret part of a link by which a person chooses a password, once, until `expires_at`.

    `token` is None where the link is mailed to the person.
    """

    person: PersonView
    token: str | None = field(repr=False)
    expires_at: datetime
