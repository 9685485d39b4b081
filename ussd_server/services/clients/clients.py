"""Clients and their people, as the operator manages them, and the signed name that a client quotes to support."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from ussd_server.context import NOT_PERMITTED, RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import dialect, unit_of_work
from ussd_server.models.clients import AuditEvent, Client, Login, User
from ussd_server.security import passwords
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients import people_rows
from ussd_server.services.clients.messages import ClientView, CreateClient, CreateUser, ServiceIdentifier, UserView
from ussd_server.services.pages import of_period, page_of, require_row
from ussd_server.services.runtime import Runtime
from ussd_server.services.sign_in import checked_email, end_logins, hash_checked_password
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id
from ussd_server.wire import ListPage, Page, view_of_row

_LONGEST_NAME = 100
_LONGEST_REASON = 200
# An id of the audit trail begins with the millisecond of its event.
_AUDIT_PRECISION = timedelta(milliseconds=2)


class ClientService:
    """Makes, disables and enables clients and their people. Disabling has its effect at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._outbox = runtime.mail_outbox
        self._clock, self._tokens, self._key_cache = runtime.clock, runtime.tokens, runtime.key_cache

    def service_identifier(self, context: RequestContext) -> ServiceIdentifier:
        """The signed text that names the calling client."""
        context.require("service_identifier:read", NOT_PERMITTED)
        now = self._clock.now()
        return ServiceIdentifier(self._tokens.service_identifier(context.client_id, now), context.client_id, now)

    def create(self, request: CreateClient, context: RequestContext) -> ClientView:
        """Make a client. INVALID_REQUEST for a malformed name or id, and for one that another client has."""
        context.require_operator()
        if (
            not 1 <= len(request.name) <= _LONGEST_NAME
            or not request.name.isprintable()
            or request.name != request.name.strip()
        ):
            raise ServiceError(Code.INVALID_REQUEST, "name: Must be 1 to 100 printable characters.")
        if request.client_id is not None and not is_id(request.client_id):
            raise ServiceError(Code.INVALID_REQUEST, "client_id: Must be a lower-case UUID.")
        # A name that looks like an id could be taken for one.
        if is_id(request.name):
            raise ServiceError(Code.INVALID_REQUEST, "name: Must not be a UUID.")
        now = self._clock.now()
        with unit_of_work():
            # Of two simultaneous commands, only one may find a name free.
            dialect().lock_table("clients")
            if Client.select().where((Client.name == request.name) | (Client.id == request.client_id)).exists():
                raise ServiceError(Code.INVALID_REQUEST, "There is a client of this name or id already")
            row = Client.create(
                id=request.client_id or new_id(now), name=request.name, is_active=True, created_at=now, updated_at=now
            )
            write_audit_event("client.created", context, now, client_id=row.id, object_id=row.id)
        return _client_view(row)

    def list(self, context: RequestContext) -> tuple[ClientView, ...]:
        """Every client, oldest first."""
        context.require_operator()
        return tuple(_client_view(row) for row in Client.select().order_by(Client.created_at, Client.id))

    def names(self, client_ids: Collection[str], context: RequestContext) -> Mapping[str, str]:
        """The names of clients by their ids; unknown ids are left out."""
        context.require_operator()
        return {row.id: row.name for row in Client.select(Client.id, Client.name).where(Client.id.in_(client_ids))}

    def page(self, request: ListPage, context: RequestContext) -> Page[ClientView]:
        """A page of clients, newest first."""
        context.require_operator()
        return page_of(Client.select(), Client, request, self._tokens, lambda rows: map(_client_view, rows))

    def reason_of(self, client: ClientView, context: RequestContext) -> str | None:
        """Why a client was last disabled or enabled, None where no reason was given."""
        context.require_operator()
        rows = AuditEvent.select().where(AuditEvent.client_id == client.client_id)
        changed = of_period(rows, AuditEvent, client.updated_at, client.updated_at + _AUDIT_PRECISION)
        return next((row.reason for row in changed if row.action in ("client.disabled", "client.enabled")), None)

    def find(self, name_or_id: str, context: RequestContext) -> ClientView:
        """The client of this name or id. NOT_FOUND when there is none."""
        context.require_operator()
        return _client_view(_find_client(name_or_id))

    def set_active(
        self, name_or_id: str, is_active: bool, context: RequestContext, reason: str | None = None
    ) -> ClientView:
        """Enable a client, or disable it, which ends its logins and stops its keys. NOT_FOUND for an unknown one.

        The client's owners read `reason` in their audit trail. INVALID_REQUEST unless it has 1 to 200 characters.
        """
        context.require_operator()
        reason = None if reason is None else reason.strip()
        if reason is not None and not 1 <= len(reason) <= _LONGEST_REASON:
            raise ServiceError(Code.INVALID_REQUEST, "Give a reason of 1 to 200 characters. The client reads it.")
        now = self._clock.now()
        row = _find_client(name_or_id)
        with self._key_cache.invalidate(row.id):
            row.change(is_active=is_active, updated_at=now)
            if not is_active:
                end_logins(Login, Login.client_id == row.id, "client_disabled", now)
            action = "client.enabled" if is_active else "client.disabled"
            write_audit_event(action, context, now, client_id=row.id, object_id=row.id, reason=reason)
        return _client_view(row)

    def count_readers(self, name_or_id: str, is_counted: bool, context: RequestContext) -> ClientView:
        """Stop to count people who read a key's secret as people behind the key, or count all of them again.

        A payout that was made before keeps the people behind its key. NOT_FOUND for an unknown client.
        """
        context.require_operator()
        now = self._clock.now()
        row = _find_client(name_or_id)
        with self._key_cache.invalidate(row.id):
            row.change(counts_readers=is_counted, updated_at=now)
            action = "client.readers_counted" if is_counted else "client.readers_ignored"
            write_audit_event(action, context, now, client_id=row.id, object_id=row.id)
        return _client_view(row)

    def create_user(self, request: CreateUser, context: RequestContext) -> UserView:
        """Make a person.

        INVALID_REQUEST for an invalid e-mail address, role or password, and where the person must be the client's first
        and is not; NOT_FOUND for an unknown client.
        """
        context.require_operator()
        email, role = checked_email(request.email), people_rows.checked_role(request.role)
        password_hash = hash_checked_password(request.password)
        now = self._clock.now()
        with unit_of_work():
            client = lock_row(Client, _find_client(request.client_id).id)
            if request.is_first and User.select().where(User.client_id == client.id).exists():
                raise ServiceError(Code.INVALID_REQUEST, "This client has people, who invite others.")
            row = people_rows.insert_person(
                now, client_id=client.id, email=email, role=role, password_hash=password_hash
            )
            write_audit_event("user.created", context, now, client_id=client.id, object_id=row.id)
        return _user_view(row)

    def list_users(self, client: str | None, context: RequestContext) -> tuple[UserView, ...]:
        """Every person, or those of one client (name or id), oldest first. NOT_FOUND for an unknown client."""
        context.require_operator()
        rows = User.select().order_by(User.id)
        if client is not None:
            rows = rows.where(User.client_id == _find_client(client).id)
        return tuple(_user_view(row) for row in rows)

    def find_user(self, email: str, context: RequestContext) -> UserView:
        """The person with this e-mail address. NOT_FOUND when there is none."""
        context.require_operator()
        return _user_view(_find_user(email))

    def has_password(self, email: str, password: str, context: RequestContext) -> bool:
        """Whether this is the person's password. NOT_FOUND for an unknown person."""
        context.require_operator()
        return passwords.matches(password, _find_user(email).password_hash)

    def set_user_active(self, email: str, is_active: bool, context: RequestContext) -> UserView:
        """Enable a person, or disable them, which ends all their logins. NOT_FOUND for an unknown one."""
        context.require_operator()
        now = self._clock.now()
        with unit_of_work():
            lock_row(Client, _find_user(email).client_id)
            row = _find_user(email)
            people_rows.set_person_active(row, is_active, self._outbox, context, now)
        return _user_view(row)

    def confirm_user(self, email: str, context: RequestContext) -> UserView:
        """Count a person as a person of their own, who may approve what others make. NOT_FOUND for an unknown one."""
        context.require_operator()
        now = self._clock.now()
        with unit_of_work():
            lock_row(Client, _find_user(email).client_id)
            row = _find_user(email)
            people_rows.confirm_person(row, context, now)
        return _user_view(row)

    def change_password(self, email: str, password: str, context: RequestContext) -> UserView:
        """Give a person another password, which ends all their logins.

        NOT_FOUND for an unknown person, INVALID_REQUEST for a password of fewer than 12 or more than 256 characters.
        """
        context.require_operator()
        password_hash = hash_checked_password(password)
        now = self._clock.now()
        with unit_of_work():
            row = _find_user(email)
            row.change(password_hash=password_hash, updated_at=people_rows.moved_on(row, now), password_seen_by=None)
            people_rows.end_logins_of_user(row.id, "password_changed", now)
            write_audit_event("user.password_changed", context, now, client_id=row.client_id, object_id=row.id)
        return _user_view(row)


def _find_client(name_or_id: str) -> Client:
    column = Client.id if is_id(name_or_id) else Client.name
    row: Client | None = Client.select().where(column == name_or_id).first()
    return require_row(row, "Client")


def _find_user(email: str) -> User:
    row: User | None = User.select().where(User.email == email.lower()).first()
    return require_row(row, "User")


def _client_view(row: Client) -> ClientView:
    return view_of_row(ClientView, row, client_id=row.id)


def _user_view(row: User) -> UserView:
    return view_of_row(UserView, row, user_id=row.id)
