"""Messages about a client's people."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ListPeople:
    """Ask for one page (1 to 100) of a client's people, newest first."""

    cursor: str | None = None
    limit: int = 50


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
    """Give a person another role."""

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
    are approved; both only where one person is asked for.
    """

    user_id: str
    email: str
    role: str
    state: str
    created_at: datetime
    updated_at: datetime
    logins: tuple[OpenLogin, ...]
    counts_as: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PeoplePage:
    """One page of people; `next_cursor` is None on the last."""

    items: tuple[PersonView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class PasswordLink:
    """The secret part of a link by which a person chooses a password, once, until `expires_at`.

    `token` is None where the link is mailed to the person.
    """

    person: PersonView
    token: str | None = field(repr=False)
    expires_at: datetime
