"""API keys: listed, created, rotated and deleted by their clients; imported, disabled and enabled by the operator."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ussd_server.context import APPROVE, RequestContext
from ussd_server.database.tables import CompiledQuery, param, written_moment
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.keys import ApiKey, DeletedApiKey
from ussd_server.runtime import Runtime, Service
from ussd_server.security.credentials import new_apikey, new_apisecret
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.keys.messages import (
    HIDDEN_SECRET,
    ApiKeyView,
    BulkDeletion,
    CreateApiKey,
    DeleteApiKeys,
    DeletedApiKeyView,
    FailedDeletion,
    RotateApiKey,
    RotatedApiKeyView,
    approves,
)
from ussd_server.services.clients.keys.reader import add_reader, unread_keys
from ussd_server.services.clients.keys.values import (
    MAY_NOT,
    NOT_FOUND,
    columns_of,
    insert_key,
    lock_client,
    require_well_formed,
    require_within_role,
)
from ussd_server.services.people import people_behind
from ussd_server.services.sessions.endings import invalidate_sessions
from ussd_server.services.webhooks.events import write_event
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, iso_milliseconds
from ussd_server.wire import DeletionResult, writer

_MAY_NOT_DELETE = "Insufficient permissions to delete this API key"

_WRITE_DELETED = writer(DeletedApiKeyView)

_OF_CLIENT = CompiledQuery(
    lambda: (
        ApiKey.select(
            ApiKey.id,
            ApiKey.apikey,
            ApiKey.secret_sealed,
            ApiKey.scopes,
            ApiKey.is_active,
            *map(written_moment, (ApiKey.created_at, ApiKey.updated_at, ApiKey.expires_at, ApiKey.last_used_at)),
            ApiKey.people,
        )
        .where(ApiKey.client_id == param(ApiKey.client_id))
        .order_by(ApiKey.id)
    )
)


class ApiKeyService(Service):
    """Keeps the keys of clients. Each change of a client's keys locks the client's row first."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._cell = runtime.settings.cell

    def list(self, context: RequestContext) -> tuple[ApiKeyView, ...]:
        """All keys of the client with their secrets, oldest first. Their reader counts as a person behind each."""
        context.require("api_keys:list", MAY_NOT)
        write_audit_event("api_key.listed", context, self._clock.now(), client_id=context.client_id)
        rows = _OF_CLIENT.tuples(client_id=context.client_id)
        while unread := _unread(rows, context):
            add_reader(unread, context, self._key_cache)
            rows = _OF_CLIENT.tuples(client_id=context.client_id)
        keys = self._views([row[:-1] for row in rows], context.client_id)
        last_hits = self._limiter.last_hits("api-key", [key.id for key in keys])
        for key, last_hit in zip(keys, last_hits, strict=True):
            if approves(key.scopes) and not context.may(APPROVE):
                key.apisecret = HIDDEN_SECRET
            if last_hit is not None:
                # The row is at most a minute old.
                key.last_used_at = max(key.last_used_at or "", iso_milliseconds(last_hit))
        return keys

    def create(self, request: CreateApiKey, context: RequestContext) -> ApiKeyView:
        """Make a key with a fresh secret. INVALID_REQUEST names the field that is wrong, or a client with 50 keys."""
        context.require("api_keys:create", MAY_NOT)
        now = self._clock.now()
        columns = columns_of(request, now)
        with unit_of_work():
            lock_client(context.client_id)
            require_within_role(columns["scopes"], context)
            row = insert_key(
                self._vault,
                context.client_id,
                new_apikey(self._cell),
                new_apisecret(),
                now,
                people=_people(context),
                created_by=context.caller.user_id,
                **columns,
            )
            write_audit_event("api_key.created", context, now, client_id=row.client_id, object_id=row.id)
        return self._view(row)

    def rotate(self, request: RotateApiKey, context: RequestContext) -> RotatedApiKeyView:
        """Give a key a new secret. The present one stays valid for the grace period; an older one ends now.

        INVALID_REQUEST for a malformed id, NOT_FOUND for a key that is not the client's.
        """
        context.require("api_keys:rotate", MAY_NOT)
        require_well_formed([request.api_key_id])
        now = self._clock.now()
        grace_ends_at = now + timedelta(seconds=request.grace_period_seconds)
        with self._key_cache.invalidate(context.client_id):
            lock_client(context.client_id)
            row = ApiKey.get_or_none(ApiKey.id == request.api_key_id, ApiKey.client_id == context.client_id)
            if row is None:
                raise ServiceError(Code.NOT_FOUND, NOT_FOUND)
            require_within_role(row.scopes, context)
            previous_secret = (
                self._vault.decrypt(row.secret_sealed, row.client_id, row.id) if request.grace_period_seconds else None
            )
            ApiKey.update(
                **self._vault.keep(new_apisecret(), previous_secret, row.client_id, row.id),
                previous_secret_expires_at=grace_ends_at if previous_secret else None,
                people=_people(context),
                previous_people=row.people if previous_secret else None,
                updated_at=now,
            ).where(ApiKey.id == row.id).execute()
            write_audit_event("api_key.rotated", context, now, client_id=row.client_id, object_id=row.id)
            row = ApiKey.get_by_id(row.id)
        return RotatedApiKeyView(**vars(self._view(row)), previous_secret_expires_at=iso_milliseconds(grace_ends_at))

    def delete(self, api_key_id: str, context: RequestContext) -> DeletionResult:
        """Remove a key for ever; its open USSD sessions end, its transactions stay.

        INVALID_REQUEST for a malformed id, NOT_FOUND for a key that is not the client's.
        """
        context.require("api_keys:delete", _MAY_NOT_DELETE)
        outcome = self._delete([api_key_id], True, context)
        return outcome.deleted[0]

    def delete_many(self, request: DeleteApiKeys, context: RequestContext) -> BulkDeletion:
        """Remove up to 100 keys; a key that is named twice is removed once. Reports keys that are not the client's.

        INVALID_REQUEST when one id is malformed; with `atomic`, NOT_FOUND when one is not the client's. Both change
        nothing.
        """
        context.require("api_keys:delete", _MAY_NOT_DELETE)
        return self._delete([*dict.fromkeys(request.api_key_ids)], request.atomic, context)

    def set_active(self, id_or_apikey: str, is_active: bool, context: RequestContext) -> ApiKeyView:
        """Enable a key, or disable it: it is refused from now on. NOT_FOUND for an unknown one."""
        context.require_operator()
        now = self._clock.now()
        column = ApiKey.id if is_id(id_or_apikey) else ApiKey.apikey
        chosen = ApiKey.select().where(column == id_or_apikey)
        with self._key_cache.invalidate(_client_of(chosen)):
            row = for_update(chosen).first()
            if row is None:
                raise ServiceError(Code.NOT_FOUND, NOT_FOUND)
            row.is_active, row.updated_at = is_active, now
            row.save(only=[ApiKey.is_active, ApiKey.updated_at])
            action = "api_key.enabled" if is_active else "api_key.disabled"
            write_audit_event(action, context, now, client_id=row.client_id, object_id=row.id)
        return self._view(row)

    def _delete(self, key_ids: Sequence[str], all_or_none: bool, context: RequestContext) -> BulkDeletion:
        require_well_formed(key_ids)
        now = self._clock.now()
        with self._key_cache.invalidate(context.client_id):
            lock_client(context.client_id)
            rows = {
                row.id: row
                for row in ApiKey.select(ApiKey.id, ApiKey.client_id, ApiKey.apikey)
                .where(ApiKey.id.in_(key_ids), ApiKey.client_id == context.client_id)
                .order_by(ApiKey.id)
            }
            if all_or_none and len(rows) < len(key_ids):
                raise ServiceError(Code.NOT_FOUND, NOT_FOUND)
            for row in rows.values():
                _remove(row, context, now)
        deleted = tuple(DeletionResult(key_id, now) for key_id in key_ids if key_id in rows)
        status = Code.NOT_FOUND.http_status
        failed = tuple(FailedDeletion(key_id, status, NOT_FOUND) for key_id in key_ids if key_id not in rows)
        return BulkDeletion(deleted, failed, len(key_ids), len(deleted), len(failed))

    def _view(self, row: ApiKey) -> ApiKeyView:
        moments = (row.created_at, row.updated_at, row.expires_at, row.last_used_at)
        written = (moment and iso_milliseconds(moment) for moment in moments)
        (view,) = self._views(
            [(row.id, row.apikey, row.secret_sealed, row.scopes, row.is_active, *written)], row.client_id
        )
        return view

    def _views(self, rows: Sequence[Any], client_id: str) -> tuple[ApiKeyView, ...]:
        """The keys of a client, from the tuples of `_OF_CLIENT` without people."""
        secrets = self._vault.decrypt_all([(row[0], row[2]) for row in rows], client_id)
        return tuple(
            ApiKeyView(key_id, client_id, apikey, secret, scopes, int(is_active), created, updated, expires, used)
            for (key_id, apikey, _, scopes, is_active, created, updated, expires, used), secret in zip(
                rows, secrets, strict=True
            )
        )


def _unread(rows: Sequence[Any], context: RequestContext) -> Sequence[str]:
    """The keys of `_OF_CLIENT` whose secrets the caller is shown for the first time."""
    shown = (row for row in rows if context.may(APPROVE) or not approves(row[3]))
    return unread_keys(((row[0], (row[-1] or "").split()) for row in shown), context)


def _client_of(chosen: Any) -> str:
    """The client of the one key that a query chooses. NOT_FOUND for none."""
    row: ApiKey | None = chosen.first()
    if row is None:
        raise ServiceError(Code.NOT_FOUND, NOT_FOUND)
    client_id: str = row.client_id
    return client_id


def _remove(row: ApiKey, context: RequestContext, now: datetime) -> None:
    """Remove a key's row, keep its name as deleted, end its sessions, and write the audit trail."""
    ApiKey.delete().where(ApiKey.id == row.id).execute()
    DeletedApiKey.create(apikey=row.apikey, id=row.id, client_id=row.client_id, deleted_at=now)
    invalidate_sessions(row.id, now)
    deleted = _WRITE_DELETED(DeletedApiKeyView(row.id, row.apikey, now))
    write_event(row.client_id, "api_key.deleted", row.id, deleted, now)
    write_audit_event("api_key.deleted", context, now, client_id=row.client_id, object_id=row.id)


def _people(context: RequestContext) -> frozenset[str]:
    """The people behind a key that this caller makes or rotates; none behind the operator's."""
    user_id = context.caller.user_id
    return frozenset() if user_id is None else people_behind(context.client_id, [user_id])
