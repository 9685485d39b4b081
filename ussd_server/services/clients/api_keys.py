"""API keys: kept by their clients; imported, disabled and enabled by operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from peewee import IntegrityError

from ussd_server.context import APPROVE, NOT_PERMITTED, SEND, RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey, DeletedApiKey
from ussd_server.security.credentials import may_be_apikey, may_be_apisecret, new_apikey, new_apisecret
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.keys import messages
from ussd_server.services.clients.keys.bounds import require_no_lifted_bound, setters_after, setters_of
from ussd_server.services.clients.keys.fields import BAD_BODY, columns_of, joined_scopes
from ussd_server.services.clients.keys.reader import (
    ApiKeyReader,
    add_reader,
    ids_not_read_yet,
    key_of_any_client,
    may_read_secret,
)
from ussd_server.services.pages import require_row
from ussd_server.services.payouts.approval.withdrawals import withdraw_revoked
from ussd_server.services.roles import OPERATOR, may_give, widest_scopes
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import people_behind_caller, present_role
from ussd_server.services.signatures import sign_row, signed_change
from ussd_server.services.ussd.endings import invalidate_sessions
from ussd_server.services.webhooks.events import write_event
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id
from ussd_server.wire import DeletionResult, view_of_row, writer

_MAY_NOT_DELETE = "Insufficient permissions to delete this API key"
_NOT_FOUND = "API Key not found"
_MOST_KEYS_OF_A_CLIENT = 50
_MEANINGS = {APPROVE: "approve", SEND: "send money"}

_WRITE_DELETED = writer(messages.DeletedApiKeyView)

_View = TypeVar("_View", bound=messages.ApiKeyView)


class ApiKeyService:
    """Keeps the keys of clients. Each change of a client's keys locks the client's row first."""

    def __init__(self, runtime: Runtime, reader: ApiKeyReader) -> None:
        self._outbox = runtime.mail_outbox
        self._clock, self._limiter, self._vault = runtime.clock, runtime.limiter, runtime.vault
        self._key_cache = runtime.key_cache
        self._reader = reader

    def list(self, context: RequestContext) -> tuple[messages.ApiKeyView, ...]:
        """All keys of the client with their secrets, oldest first. Their reader counts as a person behind each."""
        context.require("api_keys:list", NOT_PERMITTED)
        write_audit_event("api_key.listed", context, self._clock.now(), client_id=context.client_id)
        of_client = ApiKey.select().where(ApiKey.client_id == context.client_id).order_by(ApiKey.id)
        rows = list(of_client.clone())
        while unread := ids_not_read_yet([row for row in rows if may_read_secret(row, context)], context):
            add_reader(unread, context, self._key_cache, self._vault)
            rows = list(of_client.clone())
        hits = self._limiter.last_hits("api-key", [row.id for row in rows])
        return tuple(
            self._view(
                messages.ApiKeyView,
                row,
                **({} if may_read_secret(row, context) else {"apisecret": messages.HIDDEN_SECRET}),
                # The row is at most a minute old.
                last_used_at=max((each for each in (row.last_used_at, hit) if each), default=None),
            )
            for row, hit in zip(rows, hits, strict=True)
        )

    def create(self, request: messages.CreateApiKey, context: RequestContext) -> messages.ApiKeyView:
        """Make a key with a fresh secret; of scopes null, what the caller's role may give at most.

        INVALID_REQUEST names the field that is wrong, or a client with 50 keys. INSUFFICIENT_SCOPE for scopes that the
        caller's role may not give.
        """
        context.require("api_keys:create", NOT_PERMITTED)
        now = self._clock.now()
        columns = columns_of(request, now)
        with unit_of_work():
            lock_row(Client, context.client_id)
            role = _role(context)
            if columns["scopes"] is None:
                columns["scopes"] = widest_scopes(role)
            _require_within_role(columns["scopes"], role)
            made = {"people": people_behind_caller(context), "created_by": context.caller.user_id, **columns}
            made["bounds_set_by"] = setters_of(columns, role)
            row = self._insert(context.client_id, new_apikey(), new_apisecret(), now, **made)
            write_audit_event("api_key.created", context, now, client_id=row.client_id, object_id=row.id)
        return self._view(messages.ApiKeyView, row)

    def import_key(self, request: messages.ImportApiKey, context: RequestContext) -> messages.ImportedApiKey:
        """Import a key with its secret. Importing it again with the same secret updates scopes and expiry only.

        INVALID_REQUEST for a malformed key, secret or scope, for a key that was deleted, that belongs to another client
        or has another secret here, and for a client with 50 keys. NOT_FOUND for an unknown client.
        """
        context.require_operator()
        if not may_be_apikey(request.apikey):
            raise ServiceError(
                Code.INVALID_REQUEST, "apikey: Must be 8 to 64 letters and digits; one made here has a checksum."
            )
        if not may_be_apisecret(request.apisecret):
            raise ServiceError(
                Code.INVALID_REQUEST, "apisecret: Must be 16 to 128 printable ASCII characters without spaces."
            )
        columns: dict[str, Any] = {"scopes": _imported_scopes(request.scopes), "expires_at": request.expires_at}
        now = self._clock.now()
        if present := ApiKey.get_or_none(ApiKey.apikey == request.apikey):
            return self._import_again(present, request, columns, context, now)
        require_row(Client.get_or_none(Client.id == request.client_id), "Client")
        try:
            with unit_of_work():
                lock_row(Client, request.client_id)
                made = {"people": frozenset(), "bounds_set_by": setters_of(columns, OPERATOR), **columns}
                row = self._insert(request.client_id, request.apikey, request.apisecret, now, **made)
                # Checked after the insert, because the insert waits for a deletion of the same key that is in progress.
                if DeletedApiKey.select().where(DeletedApiKey.apikey == request.apikey).exists():
                    raise ServiceError(Code.INVALID_REQUEST, "apikey: Was deleted and can never be used again.")
                write_audit_event("api_key.imported", context, now, client_id=row.client_id, object_id=row.id)
        except IntegrityError:
            raise ServiceError(Code.INVALID_REQUEST, "apikey: Another import of it is under way.") from None
        return messages.ImportedApiKey(row.id, row.apikey, "created")

    def update(self, request: messages.UpdateApiKey, context: RequestContext) -> messages.ApiKeyRecord:
        """Change a key and show it with its secret, as `change` and `ApiKeyReader.get` do."""
        self.change(request, context)
        return self._reader.get(request.api_key_id, context)

    def change(self, request: messages.UpdateApiKey, context: RequestContext) -> None:
        """Change a key. On return no process acts on its old values.

        INVALID_REQUEST for a malformed id, bad values, and for a key that would gain `payouts:approve` or
        `transactions:send`; NOT_FOUND for a key that is not the client's; INSUFFICIENT_SCOPE where the key may do more
        than the caller's role gives, before or after, and for a bound that a role above the caller's has set.
        """
        context.require("api_keys:rotate", NOT_PERMITTED)
        _require_well_formed([request.api_key_id])
        now = self._clock.now()
        columns = columns_of(request, now)
        if request.is_active is not messages.UNCHANGED:
            columns["is_active"] = bool(request.is_active)
        with self._key_cache.invalidate(context.client_id):
            row = _changeable(request.api_key_id, context)
            changed = {name: value for name, value in columns.items() if getattr(row, name) != value}
            role = _role(context)
            _require_less_power(row, changed, role)
            if changed:
                changed["bounds_set_by"] = setters_after(row, changed, role)
                with signed_change(self._vault, ApiKey, row.id):
                    ApiKey.update(updated_at=now, **changed).where(ApiKey.id == row.id).execute()
                _write_audit_of_change(row, changed, context, now)
                withdraw_revoked(row.client_id, self._outbox, context, now)

    def rotate(self, request: messages.RotateApiKey, context: RequestContext) -> messages.RotatedApiKeyView:
        """Give a key a new secret. The present one stays valid for the grace period; an older one ends now.

        INVALID_REQUEST for a malformed id, NOT_FOUND for a key that is not the client's.
        """
        context.require("api_keys:rotate", NOT_PERMITTED)
        _require_well_formed([request.api_key_id])
        now = self._clock.now()
        grace_ends_at = now + timedelta(seconds=request.grace_period_seconds)
        with self._key_cache.invalidate(context.client_id):
            row = _changeable(request.api_key_id, context)
            previous_secret = (
                self._vault.decrypt(row.secret_sealed, row.client_id, row.id) if request.grace_period_seconds else None
            )
            with signed_change(self._vault, ApiKey, row.id):
                ApiKey.update(
                    **self._vault.keep(new_apisecret(), previous_secret, row.client_id, row.id),
                    previous_secret_expires_at=grace_ends_at if previous_secret else None,
                    people=people_behind_caller(context),
                    previous_people=row.people if previous_secret else None,
                    readers=None,
                    previous_readers=row.readers if previous_secret else None,
                    updated_at=now,
                ).where(ApiKey.id == row.id).execute()
            write_audit_event("api_key.rotated", context, now, client_id=row.client_id, object_id=row.id)
            row = ApiKey.get_by_id(row.id)
        return self._view(messages.RotatedApiKeyView, row, previous_secret_expires_at=grace_ends_at)

    def set_active(self, id_or_apikey: str, is_active: bool, context: RequestContext) -> messages.ApiKeyView:
        """Enable a key, or disable it: it is refused from now on. NOT_FOUND for an unknown one."""
        context.require_operator()
        now = self._clock.now()
        client_id = key_of_any_client(id_or_apikey).client_id
        with self._key_cache.invalidate(client_id):
            lock_row(Client, client_id)
            row = key_of_any_client(id_or_apikey, locked=True)
            with signed_change(self._vault, ApiKey, row.id):
                row.change(is_active=is_active, updated_at=now)
            action = "api_key.enabled" if is_active else "api_key.disabled"
            write_audit_event(action, context, now, client_id=row.client_id, object_id=row.id)
            withdraw_revoked(row.client_id, self._outbox, context, now)
        return self._view(messages.ApiKeyView, row)

    def delete(self, api_key_id: str, context: RequestContext) -> DeletionResult:
        """Remove a key for ever; its open USSD sessions end, its transactions stay.

        INVALID_REQUEST for a malformed id, NOT_FOUND for a key that is not the client's.
        """
        return self.delete_many(messages.DeleteApiKeys((api_key_id,), atomic=True), context).deleted[0]

    def delete_many(self, request: messages.DeleteApiKeys, context: RequestContext) -> messages.BulkDeletion:
        """Remove up to 100 keys; a key that is named twice is removed once. Reports keys that are not the client's.

        INVALID_REQUEST when one id is malformed; with `atomic`, NOT_FOUND when one is not the client's. Both change
        nothing.
        """
        context.require("api_keys:delete", _MAY_NOT_DELETE)
        key_ids = list(dict.fromkeys(request.api_key_ids))
        _require_well_formed(key_ids)
        now = self._clock.now()
        with self._key_cache.invalidate(context.client_id):
            lock_row(Client, context.client_id)
            rows = {
                row.id: row
                for row in ApiKey.select(ApiKey.id, ApiKey.client_id, ApiKey.apikey, ApiKey.name)
                .where(ApiKey.id.in_(key_ids), ApiKey.client_id == context.client_id)
                .order_by(ApiKey.id)
            }
            if request.atomic and len(rows) < len(key_ids):
                raise ServiceError(Code.NOT_FOUND, _NOT_FOUND)
            for row in rows.values():
                _remove(row, context, now)
            withdraw_revoked(context.client_id, self._outbox, context, now)
        deleted = tuple(DeletionResult(key_id, now) for key_id in key_ids if key_id in rows)
        status = Code.NOT_FOUND.http_status
        failed = tuple(messages.FailedDeletion(key_id, status, _NOT_FOUND) for key_id in key_ids if key_id not in rows)
        return messages.BulkDeletion(deleted, failed, len(key_ids), len(deleted), len(failed))

    def _insert(self, client_id: str, apikey: str, secret: str, now: datetime, **columns: Any) -> ApiKey:
        """Insert a key. Call with the client's row locked, so that racing calls make no more than the most."""
        if ApiKey.select().where(ApiKey.client_id == client_id).count() >= _MOST_KEYS_OF_A_CLIENT:
            raise ServiceError(Code.INVALID_REQUEST, "API Key limit reached")
        key_id = new_id(now)
        row: ApiKey = ApiKey.create(
            id=key_id,
            client_id=client_id,
            apikey=apikey,
            **self._vault.keep(secret, None, client_id, key_id),
            is_active=True,
            created_at=now,
            updated_at=now,
            **columns,
        )
        sign_row(self._vault, ApiKey, key_id)
        return row

    def _import_again(
        self,
        row: ApiKey,
        request: messages.ImportApiKey,
        columns: dict[str, Any],
        context: RequestContext,
        now: datetime,
    ) -> messages.ImportedApiKey:
        if row.client_id != request.client_id:
            raise ServiceError(Code.INVALID_REQUEST, "apikey: Belongs to another client.")
        if not self._vault.matches(request.apisecret, row.id, row.secret_digest, row.digest_key_id):
            raise ServiceError(Code.INVALID_REQUEST, "apisecret: Is not the one this key has; rotate the key instead.")
        if all(getattr(row, name) == value for name, value in columns.items()):
            return messages.ImportedApiKey(row.id, row.apikey, "unchanged")
        with self._key_cache.invalidate(row.client_id):
            lock_row(Client, row.client_id)
            columns["bounds_set_by"] = setters_after(row, columns, OPERATOR)
            with signed_change(self._vault, ApiKey, row.id):
                ApiKey.update(updated_at=now, **columns).where(ApiKey.id == row.id).execute()
            withdraw_revoked(row.client_id, self._outbox, context, now)
            write_audit_event("api_key.updated", context, now, client_id=row.client_id, object_id=row.id)
        return messages.ImportedApiKey(row.id, row.apikey, "updated")

    def _view(self, view: Callable[..., _View], row: ApiKey, **values: Any) -> _View:
        if "apisecret" not in values:
            values["apisecret"] = self._vault.decrypt(row.secret_sealed, row.client_id, row.id)
        return view_of_row(view, row, is_active=int(row.is_active), **values)


def _require_well_formed(key_ids: Sequence[str]) -> None:
    """INVALID_REQUEST unless these are ids."""
    if not all(is_id(key_id) for key_id in key_ids):
        raise ServiceError(Code.INVALID_REQUEST, "Invalid API key ID format")


def _changeable(api_key_id: str, context: RequestContext) -> ApiKey:
    """A key that the caller may change, with the client's row locked."""
    lock_row(Client, context.client_id)
    row: ApiKey | None = ApiKey.get_or_none(ApiKey.id == api_key_id, ApiKey.client_id == context.client_id)
    if row is None:
        raise ServiceError(Code.NOT_FOUND, _NOT_FOUND)
    _require_within_role(row.scopes, _role(context))
    return row


def _role(context: RequestContext) -> str:
    """The role of the calling person as it is now, or `operator`. Call it with the client's row locked."""
    return OPERATOR if context.caller.user_id is None else present_role(context)


def _require_within_role(scopes: str | None, role: str) -> None:
    """Refuse people to make or change a key that may do more than their role gives."""
    if not may_give(role, scopes):
        raise ServiceError(Code.INSUFFICIENT_SCOPE, NOT_PERMITTED)


def _require_less_power(row: ApiKey, changed: dict[str, Any], role: str) -> None:
    """Refuse scopes that the caller may not give, lifted bounds, and powers for a secret that others may have read."""
    if "scopes" in changed:
        _require_within_role(changed["scopes"], role)
        if gained := messages.powers(changed["scopes"]) - messages.powers(row.scopes):
            named = min(gained)
            raise ServiceError(
                Code.INVALID_REQUEST,
                f"{BAD_BODY}: scopes: Only a new key can get {named}, because people who may not "
                f"{_MEANINGS[named]} may have read the secret of this one.",
            )
    require_no_lifted_bound(row, changed, role)
    if changed.get("is_active"):
        raise ServiceError(Code.INVALID_REQUEST, f"{BAD_BODY}: is_active: The provider's support enables keys.")


def _write_audit_of_change(row: ApiKey, changed: dict[str, Any], context: RequestContext, now: datetime) -> None:
    """A line about the fields that changed, and one of its own about a key that is disabled."""
    fields = [name.removesuffix("_cents") for name in changed if name not in ("is_active", "bounds_set_by")]
    about = {"client_id": row.client_id, "object_id": row.id}
    if fields:
        write_audit_event("api_key.updated", context, now, reason=", ".join(fields), **about)
    if "is_active" in changed:
        write_audit_event("api_key.disabled", context, now, **about)


def _remove(row: ApiKey, context: RequestContext, now: datetime) -> None:
    """Remove a key's row, keep its apikey as deleted, end its sessions, and write the audit trail."""
    ApiKey.delete().where(ApiKey.id == row.id).execute()
    DeletedApiKey.create(apikey=row.apikey, id=row.id, client_id=row.client_id, deleted_at=now)
    invalidate_sessions(row.id, now)
    deleted = _WRITE_DELETED(messages.DeletedApiKeyView(row.id, row.apikey, now))
    write_event(row.client_id, "api_key.deleted", row.id, deleted, now)
    title = row.name or row.apikey
    write_audit_event("api_key.deleted", context, now, client_id=row.client_id, object_id=row.id, reason=title)


def _imported_scopes(scopes: tuple[str, ...] | None) -> str | None:
    try:
        return None if scopes is None else joined_scopes(scopes)
    except ValueError as fault:
        raise ServiceError(Code.INVALID_REQUEST, f"scopes: {fault}") from None
