"""A client's people, as its owners and admins keep them.

An admin can neither change nor create owners. A client always keeps one active owner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from ussd_server.context import APPROVE, RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client, User
from ussd_server.models.keys import ApiKey
from ussd_server.security import passwords
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients import people_rows
from ussd_server.services.clients.messages import ChangeRole, InvitePerson, OpenLogin, PasswordLink, PersonView
from ussd_server.services.clients.password_links import LINK_LIFE, digest_of, new_link
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.pages import find_by_id, page_of
from ussd_server.services.payouts.approval.withdrawals import withdraw_revoked
from ussd_server.services.roles import PAGE_PERMISSIONS
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import (
    MAKE,
    ROLES_OF,
    ids_of_same_person,
    is_one_person,
    people_behind_caller,
    present_role,
    require_can_confirm,
    require_owner,
)
from ussd_server.services.sign_in import checked_email
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id
from ussd_server.wire import ListPage, Page, view_of_row

MOST_PEOPLE = 500

_REFUSAL = "Your role does not allow this."
_OWNERS_ONLY = "Only an owner may do this to an owner, or make one."
_LAST_OWNER = "A client keeps one active owner. Make another person owner first."


class PeopleService:
    """Lists, invites, changes and disables the people of the caller's client. Disabling has its effect at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens, self._outbox = runtime.clock, runtime.tokens, runtime.mail_outbox

    def list(self, request: ListPage, context: RequestContext) -> Page[PersonView]:
        """One page of the client's people, newest first, without their logins."""
        context.require("team:read", _REFUSAL)
        rows = User.select().where(User.client_id == context.client_id)
        return page_of(rows, User, request, self._tokens, lambda users: map(_view, users))

    def show(self, user_id: str, context: RequestContext) -> PersonView:
        """One person with their open logins. NOT_FOUND for a person of another client."""
        context.require("team:read", _REFUSAL)
        row = _person(user_id, context.client_id)
        others = ids_of_same_person(row.client_id, [row.id]) - {row.id}
        emails = User.select(User.email).where(User.id.in_(others)).order_by(User.email)
        view = _view(row, people_rows.open_logins(row.id, self._clock.now()))
        may_confirm = (
            view.needs_confirmation
            and context.may(APPROVE)
            and not is_one_person(row.client_id, context.caller.user_id or "", row.id)
        )
        return replace(view, counts_as=tuple(each.email for each in emails), may_confirm=may_confirm)

    def names(self, ids: Collection[str | None], context: RequestContext) -> Mapping[str, str]:
        """E-mail addresses and API keys by the ids of people and keys. Unknown ids and other clients' are left out."""
        context.require("team:read", _REFUSAL)
        valid_ids = {each for each in ids if each and is_id(each)}
        people = User.select().where(User.id.in_(valid_ids), User.client_id == context.client_id)
        keys = ApiKey.select().where(ApiKey.id.in_(valid_ids), ApiKey.client_id == context.client_id)
        return {row.id: row.email for row in people} | {row.id: f"API key {row.name or row.apikey}" for row in keys}

    def count_unconfirmed(self, context: RequestContext) -> int:
        """How many people with rights to payouts wait for a confirmation that the caller may give."""
        if not context.may(APPROVE) or context.caller.user_id is None:
            return 0
        waits = User.invited_by.is_null(False) | User.password_seen_by.is_null(False)
        of_client = (User.client_id == context.client_id) & User.is_active & User.role.in_(ROLES_OF[MAKE])
        waiting = [row.id for row in User.select(User.id).where(of_client, waits)]
        own = ids_of_same_person(context.client_id, [context.caller.user_id]) if waiting else frozenset()
        return sum(person not in own for person in waiting)

    def has_left(self, user_id: str, context: RequestContext) -> bool:
        """Whether this is a person of the client who is disabled; False for all other ids."""
        context.require("team:read", _REFUSAL)
        gone = User.select().where(User.id == user_id, User.client_id == context.client_id, ~User.is_active)
        return bool(gone.exists())

    def who_may(self, grant: str, context: RequestContext, without: Collection[str]) -> tuple[str, ...]:
        """E-mail addresses of the active people whose role has `grant`, except people whose ids are in `without`."""
        context.require("team:read", _REFUSAL)
        roles = [role for role, grants in PAGE_PERMISSIONS.items() if grant in grants]
        people = User.select().where(User.client_id == context.client_id, User.role.in_(roles), User.is_active)
        return tuple(row.email for row in people.order_by(User.email) if row.id not in without)

    def invite(self, request: InvitePerson, context: RequestContext) -> PasswordLink:
        """Make a person without a password, and a link to choose one, which is mailed or shown to the caller.

        INVALID_REQUEST for an invalid e-mail address or role, and for more than 500 people; INSUFFICIENT_SCOPE where an
        admin makes an owner; RATE_LIMIT_EXCEEDED after too many mails of an hour.
        """
        email, role = checked_email(request.email), people_rows.checked_role(request.role)
        now, is_shown = self._clock.now(), request.shows_link or not self._outbox.is_on
        with self._changing(context, (role,)):
            if User.select(User.id).where(User.client_id == context.client_id).count() >= MOST_PEOPLE:
                raise ServiceError(Code.INVALID_REQUEST, "A client has 500 people at most.")
            row = people_rows.insert_person(
                now,
                client_id=context.client_id,
                email=email,
                password_hash=passwords.NONE_YET,
                role=role,
                link_seen_by=people_behind_caller(context) if is_shown else None,
                invited_by=people_behind_caller(context),
            )
            write_audit_event("user.invited", context, now, client_id=row.client_id, object_id=row.id)
            _ask_for_confirmation(row, self._outbox, context, now)
            return self._link(row, MailKind.INVITATION, context)

    def new_link(self, user_id: str, context: RequestContext, *, shows_link: bool = False) -> PasswordLink:
        """A new link for a person who lost the password or the first link, mailed or shown to the caller.

        Earlier links end; the password stays valid. INVALID_REQUEST for a disabled person, and as `invite`.
        """
        with self._changing(context) as now:
            row = _locked_person(user_id, context)
            if not row.is_active:
                raise ServiceError(Code.INVALID_REQUEST, "This person is disabled; enable them first.")
            seen_by = people_behind_caller(context) if shows_link or not self._outbox.is_on else None
            row.change(updated_at=people_rows.moved_on(row, now), link_seen_by=seen_by)
            write_audit_event("user.link_made", context, now, client_id=row.client_id, object_id=row.id)
            return self._link(row, MailKind.PASSWORD_LINK, context)

    def change_role(self, request: ChangeRole, context: RequestContext) -> PersonView:
        """Give a person another role, which applies from the next request on. Ends the links that they were shown."""
        role = people_rows.checked_role(request.role)
        with self._changing(context, (role,)) as now:
            row = _locked_person(request.user_id, context)
            if row.role == "owner" and role != "owner":
                _require_another_owner(row)
            gains = any(role in roles and row.role not in roles for roles in ROLES_OF.values())
            row.role, row.updated_at = role, people_rows.moved_on(row, now)
            if gains:
                # Who gives the right to make or approve payouts is one person with its holder until a third confirms.
                row.invited_by = (row.invited_by or frozenset()) | people_behind_caller(context)
            row.save(only=[User.role, User.updated_at, User.invited_by])
            people_rows.end_links_shown_to(row, now)
            write_audit_event(f"user.made_{role}", context, now, client_id=row.client_id, object_id=row.id)
            withdraw_revoked(row.client_id, self._outbox, context, now)
            if gains:
                _ask_for_confirmation(row, self._outbox, context, now)
        return _view(row)

    def confirm(self, user_id: str, context: RequestContext) -> PersonView:
        """Confirm that a person is a person of their own: they may approve what their inviters make.

        INSUFFICIENT_SCOPE unless the caller may approve payouts, and counts as another person than this one.
        """
        context.require(APPROVE, _REFUSAL)
        with unit_of_work():
            lock_row(Client, context.client_id)
            row = _person(user_id, context.client_id)
            require_can_confirm(row, context)
            people_rows.confirm_person(row, context, self._clock.now())
        return _view(row)

    def set_active(self, user_id: str, is_active: bool, context: RequestContext) -> PersonView:
        """Enable a person, or disable them, which ends all their logins and the links that they were shown.

        INVALID_REQUEST for oneself.
        """
        with self._changing(context) as now:
            row = _locked_person(user_id, context)
            if not is_active:
                if row.id == context.caller.user_id:
                    raise ServiceError(Code.INVALID_REQUEST, "You cannot disable yourself.")
                _require_another_owner(row)
            people_rows.set_person_active(row, is_active, self._outbox, context, now)
        return _view(row)

    def end_logins(self, user_id: str, context: RequestContext) -> PersonView:
        """End every login of a person; they sign in again with their password."""
        with self._changing(context) as now:
            row = _locked_person(user_id, context)
            people_rows.end_logins_of_user(row.id, "ended_by_team", now)
            write_audit_event("user.logins_ended", context, now, client_id=row.client_id, object_id=row.id)
        return _view(row)

    @contextmanager
    def _changing(self, context: RequestContext, new_roles: Iterable[str] = ()) -> Iterator[datetime]:
        """A unit of work that locks the team of the caller's client. Yields its time."""
        context.require("team:write", _REFUSAL)
        with unit_of_work():
            lock_row(Client, context.client_id)
            role = present_role(context)
            if "team:write" not in PAGE_PERMISSIONS.get(role, ()):
                raise ServiceError(Code.INSUFFICIENT_SCOPE, _REFUSAL)
            if "owner" in new_roles:
                require_owner(context, _OWNERS_ONLY)
            yield self._clock.now()

    def _link(self, row: User, kind: MailKind, context: RequestContext) -> PasswordLink:
        """A link for a person, shown if `link_seen_by` says so, else mailed. Call in the unit of work of the change."""
        row, now = User.get_by_id(row.id), self._clock.now()
        if row.link_seen_by is not None:
            token, expires_at = new_link(self._tokens, row, now)
            return PasswordLink(_view(row), token, expires_at)
        self._outbox.refuse_too_many(row, now)
        expires_at = now + LINK_LIFE
        about = {
            "by": User.get_by_id(context.caller.user_id).email,
            "client": Client.get_by_id(row.client_id).name,
            "digest": digest_of(row, None),
            "expires_at": int(expires_at.timestamp()),
        }
        self._outbox.queue(kind, row.email, about, now, client_id=row.client_id, person_id=row.id)
        return PasswordLink(_view(row), None, expires_at)


def _ask_for_confirmation(row: User, outbox: MailOutbox, context: RequestContext, now: datetime) -> None:
    """Write mails to the people who may confirm a person with rights to payouts. Call in the unit of work."""
    if row.role not in ROLES_OF[MAKE]:
        return
    about = {
        "by": User.get_by_id(context.caller.user_id).email,
        "email": row.email,
        "role": row.role,
        "page": f"/console/people/{row.id}",
    }
    kind, one = MailKind.PERSON_UNCONFIRMED, ids_of_same_person(row.client_id, [row.id])
    occasion = f"{kind}/{row.id}/{row.updated_at.isoformat()}"
    outbox.notify_people(kind, row.client_id, about, now, occasion=occasion, without=one)


def _locked_person(user_id: str, context: RequestContext) -> User:
    """A person whom the caller may change. Call inside `_changing`."""
    row = _person(user_id, context.client_id)
    if row.role == "owner":
        require_owner(context, _OWNERS_ONLY)
    return row


def _require_another_owner(row: User) -> None:
    """Refuse a change that leaves the client without an owner who can sign in."""
    if row.role != "owner" or not row.is_active:
        return
    others = User.select(User.id).where(
        User.client_id == row.client_id,
        User.id != row.id,
        User.role == "owner",
        User.is_active,
        User.password_hash != passwords.NONE_YET,
    )
    if not others.exists():
        raise ServiceError(Code.INVALID_REQUEST, _LAST_OWNER)


def _person(user_id: str, client_id: str) -> User:
    return find_by_id(User.select().where(User.client_id == client_id), User, user_id, "Person")


def _view(row: User, logins: tuple[OpenLogin, ...] = ()) -> PersonView:
    waits = row.invited_by is not None or row.password_seen_by is not None
    return view_of_row(
        PersonView,
        row,
        user_id=row.id,
        state=_state(row),
        logins=logins,
        counts_as=(),
        needs_confirmation=waits,
        may_confirm=False,
    )


def _state(row: User) -> str:
    if not row.is_active:
        return "disabled"
    return "active" if row.password_hash else "invited"
