"""The rows of a client's people: what the operator and owners do alike, and what a change of a person ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from peewee import IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import Client, Login, User, UserFactor
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.messages import OpenLogin
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.payouts.approval.withdrawals import withdraw_revoked
from ussd_server.services.roles import PERMISSIONS
from ussd_server.services.sign_in import end_logins
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

_MOST_LOGINS = 50


def checked_role(role: str) -> str:
    """The role. INVALID_REQUEST for an unknown one."""
    if role not in PERMISSIONS:
        raise ServiceError(Code.INVALID_REQUEST, f"role: Must be one of {', '.join(PERMISSIONS)}.")
    return role


def insert_person(now: datetime, **columns: Any) -> User:
    """Insert an active person, in a unit of work. INVALID_REQUEST for an e-mail address that another person has."""
    try:
        return User.create(id=new_id(now), is_active=True, created_at=now, updated_at=now, **columns)
    except IntegrityError:
        raise ServiceError(Code.INVALID_REQUEST, "email: Belongs to a user already.") from None


def set_person_active(row: User, is_active: bool, outbox: MailOutbox, context: RequestContext, now: datetime) -> None:
    """Enable a person, or disable them, which ends all their logins and the links that they were shown.

    Approvals by a disabled person, and by keys behind which no other person stands, are withdrawn. Call in a unit of
    work that has locked the row of the client.
    """
    if not is_active:
        end_logins_of_user(row.id, "user_disabled", now)
        end_links_shown_to(row, now)
    row.change(is_active=is_active, updated_at=moved_on(row, now))
    action = "user.enabled" if is_active else "user.disabled"
    write_audit_event(action, context, now, client_id=row.client_id, object_id=row.id)
    if not is_active:
        withdraw_revoked(row.client_id, outbox, context, now, disabled_person=row.id)


def confirm_person(row: User, context: RequestContext, now: datetime) -> None:
    """Count a person as a person of their own from now on. Call in a unit of work that has locked the client's row."""
    row.change(invited_by=None, password_seen_by=None)
    write_audit_event("user.confirmed", context, now, client_id=row.client_id, object_id=row.id)


def end_logins_of_user(user_id: str, reason: str, now: datetime, *, but: str | None = None) -> None:
    """End every login of a person at once; all others but `but`, where it is given."""
    whose = Login.user_id == user_id
    end_logins(Login, whose & (Login.id != but) if but else whose, reason, now)


def open_logins(user_id: str, now: datetime) -> tuple[OpenLogin, ...]:
    """The newest logins of a person that have not ended, 50 at most."""
    is_open = Login.ended_at.is_null() & (Login.expires_at > now)
    rows = Login.select().where(Login.user_id == user_id, is_open).order_by(Login.id.desc()).limit(_MOST_LOGINS)
    return tuple(OpenLogin(login.id, login.address, login.created_at, login.expires_at) for login in rows)


def moved_on(row: User, now: datetime) -> datetime:
    """The time of a change of a person, always later than that of the change before, so that it ends their links."""
    earliest: datetime = row.updated_at + timedelta(milliseconds=1)
    return max(now, earliest)


def end_links_shown_to(person: User, now: datetime) -> None:
    """End the links for colleagues that a person could open. Call in the unit of work that takes rights from them."""
    users = User.select().where(User.client_id == person.client_id, User.link_seen_by.is_null(False))
    for user in for_update(users.order_by(User.id)):
        if person.id in user.link_seen_by:
            user.change(link_seen_by=None, updated_at=moved_on(user, now))


def lacks_required_factor(user: User) -> bool:
    """Whether the person has no second factor although the client requires one."""
    requires = Client.select(Client.id).where(Client.id == user.client_id, Client.requires_second_factor)
    return bool(requires.exists()) and not UserFactor.select().where(UserFactor.id == user.id).exists()
