"""API keys as people see them, mostly without their secrets, and what a calling key learns about itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from ussd_server.context import APPROVE, NOT_PERMITTED, CallerKind, RequestContext
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import User
from ussd_server.models.keys import ApiKey, DeletedApiKey, KeySpending, behind_secret
from ussd_server.security.key_ring import Vault
from ussd_server.services.audit.trail import action_at, write_audit_event
from ussd_server.services.clients.key_cache import KeyCache
from ussd_server.services.clients.keys.messages import (
    HIDDEN_SECRET,
    ApiKeyRecord,
    ApiKeySummary,
    CallWindow,
    DeletedKey,
    OwnKey,
    OwnWindow,
    powers,
)
from ussd_server.services.pages import find_by_id, require_row
from ussd_server.services.request_log.requests import RequestLogService
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import people_behind_caller
from ussd_server.services.signatures import signed_change
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, kampala_day
from ussd_server.wire import view_of_row

_SOON = timedelta(days=7)
_MOST_COMPARED = 10_000
_SECRETS = (ApiKey.secret_digest, ApiKey.previous_secret_digest, ApiKey.digest_key_id)


class ApiKeyReader:
    """Lists a client's keys, and reveals a key's secret to people who may list keys."""

    def __init__(self, runtime: Runtime, requests: RequestLogService) -> None:
        self._clock, self._limiter, self._vault = runtime.clock, runtime.limiter, runtime.vault
        self._key_cache = runtime.key_cache
        self._requests = requests

    def list(self, context: RequestContext) -> tuple[ApiKeySummary, ...]:
        """All keys of the client (50 at most), newest first."""
        context.require("api_keys:list", NOT_PERMITTED)
        rows = list(ApiKey.select().where(ApiKey.client_id == context.client_id).order_by(ApiKey.id.desc()))
        return self._summaries(rows)

    def expiring(self, context: RequestContext) -> tuple[ApiKeySummary, ...]:
        """The client's keys that expire within 7 days, the earliest first; none for callers who may not list keys."""
        if not context.may("api_keys:list"):
            return ()
        now = self._clock.now()
        rows = ApiKey.select().where(
            ApiKey.client_id == context.client_id,
            ApiKey.is_active,
            ApiKey.expires_at > now,
            ApiKey.expires_at <= now + _SOON,
        )
        keys = list(rows.order_by(ApiKey.expires_at))
        return self._summaries(keys) if keys else ()

    def show(self, api_key_id: str, context: RequestContext) -> ApiKeySummary:
        """One key. NOT_FOUND for a key that is not the client's."""
        context.require("api_keys:list", NOT_PERMITTED)
        return self._summaries([_find(api_key_id, context)])[0]

    def deleted(self, id_or_apikey: str, context: RequestContext) -> DeletedKey:
        """One deleted key. NOT_FOUND for any other, and for a key that was not the client's."""
        context.require("api_keys:list", NOT_PERMITTED)
        column = DeletedApiKey.id if is_id(id_or_apikey) else DeletedApiKey.apikey
        row = DeletedApiKey.get_or_none(column == id_or_apikey, DeletedApiKey.client_id == context.client_id)
        row = require_row(row, "API Key")
        deletion = action_at("api_key.deleted", row.client_id, row.id, row.deleted_at)
        title = (deletion and deletion.reason) or row.apikey
        return DeletedKey(row.id, row.apikey, title, row.deleted_at, deletion and deletion.email)

    def known_to(self, user_id: str, context: RequestContext) -> tuple[ApiKeySummary, ...]:
        """The keys whose present secret a person made or may have read; none for callers who may not list keys."""
        if not context.may("api_keys:list"):
            return ()
        rows = ApiKey.select().where(ApiKey.client_id == context.client_id).order_by(ApiKey.id.desc())
        return self._summaries([row for row in rows if user_id in _may_know(row)])

    def find_any(self, id_or_apikey: str, context: RequestContext) -> ApiKeySummary:
        """One key of any client, for the operator. NOT_FOUND for an unknown one."""
        context.require_operator()
        return self._summaries([key_of_any_client(id_or_apikey)])[0]

    def of_secret(self, secret: str, context: RequestContext) -> str | None:
        """The id of the key that has or had this secret, None for none; for operators among the keys of all clients."""
        rows = ApiKey.select(ApiKey.id, *_SECRETS).order_by(ApiKey.id.desc()).limit(_MOST_COMPARED)
        if context.caller.kind is not CallerKind.OPERATOR:
            context.require("api_keys:list", NOT_PERMITTED)
            rows = rows.where(ApiKey.client_id == context.client_id)
        has_secret = (row.id for row in rows if self._has_secret(row, secret))
        return next(has_secret, None)

    def _has_secret(self, row: ApiKey, secret: str) -> bool:
        digests = (each for each in (row.secret_digest, row.previous_secret_digest) if each)
        return any(self._vault.matches(secret, row.id, bytes(each), row.digest_key_id) for each in digests)

    def calls(self, api_key_id: str, context: RequestContext) -> tuple[CallWindow, ...]:
        """The key's calls of the last minute and hour. NOT_FOUND for a key that is not the client's."""
        context.require("api_keys:list", NOT_PERMITTED)
        decision = self._limiter.peek("api-key", _find(api_key_id, context).id)
        return tuple(
            CallWindow(window.name, window.limit, window.limit - window.remaining) for window in decision.windows
        )

    def may_reveal(self, key: ApiKeySummary, context: RequestContext) -> bool:
        return may_read_secret(key, context)

    def reveal(self, api_key_id: str, context: RequestContext) -> str:
        """The secret of a key. Its reader is noted in the audit trail and among the key's readers.

        NOT_FOUND for a key that is not the client's.
        INSUFFICIENT_SCOPE for a key that may approve payouts or send money where the caller may not.
        """
        context.require("api_keys:list", NOT_PERMITTED)
        row = _find(api_key_id, context)
        if not may_read_secret(row, context):
            raise ServiceError(Code.INSUFFICIENT_SCOPE, NOT_PERMITTED)
        # A rotation in between replaces secret and people: look again.
        while unread := ids_not_read_yet([row], context):
            add_reader(unread, context, self._key_cache, self._vault)
            row = _find(api_key_id, context)
        write_audit_event("api_key.revealed", context, self._clock.now(), client_id=context.client_id, object_id=row.id)
        return self._vault.decrypt(row.secret_sealed, row.client_id, row.id)

    def get(self, api_key_id: str, context: RequestContext) -> ApiKeyRecord:
        """One key with its secret, hidden in a key that approves payouts or sends money from callers who may not.

        INVALID_REQUEST for a malformed id, NOT_FOUND for a key that is not the client's.
        """
        context.require("api_keys:list", NOT_PERMITTED)
        if not is_id(api_key_id):
            raise ServiceError(Code.INVALID_REQUEST, "Invalid API key ID format")
        row = _find(api_key_id, context)
        used_scopes = self._requests.used_scopes(row.id)
        (values,) = self._values_beside_columns([row])
        return view_of_row(
            ApiKeyRecord,
            row,
            apisecret=self.reveal(api_key_id, context) if may_read_secret(row, context) else HIDDEN_SECRET,
            is_active=int(row.is_active),
            used_scopes=used_scopes,
            suggested_scopes=" ".join(used_scopes) or None,
            **values,
        )

    def own(self, context: RequestContext) -> OwnKey:
        """The rights of the calling key, and what is left of its limits."""
        row = ApiKey.get_or_none(ApiKey.id == context.caller.key_id)
        if row is None:
            # The key was deleted since the call was authenticated.
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid API key or secret")
        windows = self._limiter.peek("api-key", row.id).windows
        limit_cents, paid_cents = row.daily_limit_cents, self._paid_today_cents([row.id]).get(row.id, 0)
        return view_of_row(
            OwnKey,
            row,
            key_id=row.id,
            limits={each.name: OwnWindow(each.limit, each.remaining, each.reset_seconds) for each in windows},
            daily_remaining_cents=None if limit_cents is None else max(0, limit_cents - paid_cents),
        )

    def _summaries(self, rows: Sequence[ApiKey]) -> tuple[ApiKeySummary, ...]:
        now, paid_cents = self._clock.now(), self._paid_today_cents([row.id for row in rows])
        summaries = []
        for row, values in zip(rows, self._values_beside_columns(rows), strict=True):
            grace_ends = row.previous_secret_expires_at
            summary = view_of_row(
                ApiKeySummary,
                row,
                is_expired=row.expires_at is not None and row.expires_at <= now,
                previous_secret_expires_at=grace_ends if grace_ends and grace_ends > now else None,
                paid_today_cents=paid_cents.get(row.id, 0),
                **values,
            )
            summaries.append(summary)
        return tuple(summaries)

    def _values_beside_columns(self, rows: Sequence[ApiKey]) -> Iterable[dict[str, Any]]:
        """For each key, the fields that are not columns of its row as they are: last use, maker, addresses."""
        ids = [row.id for row in rows]
        last_hits, accepted = self._limiter.last_hits("api-key", ids), self._requests.last_accepted(ids)
        people = User.select(User.id, User.email).where(User.id.in_({row.created_by for row in rows if row.created_by}))
        makers = {person.id: person.email for person in people}
        for row, last_hit in zip(rows, last_hits, strict=True):
            stored = (row.last_used_at, row.last_used_address) if row.last_used_at else None
            uses = [use for use in (stored, accepted.get(row.id)) if use]
            # The limiter counts refused calls too, so its time is shown only while no accepted call is known.
            last_used_at, address = max(uses, key=lambda use: use[0], default=(last_hit, None))
            yield {
                "last_used_at": last_used_at,
                "last_used_address": address,
                "created_by": makers.get(row.created_by or ""),
                "allowed_addresses": tuple(row.allowed_addresses.split()) if row.allowed_addresses else None,
            }

    def _paid_today_cents(self, key_ids: Sequence[str]) -> dict[str, int]:
        today = kampala_day(self._clock.now())
        rows = KeySpending.select().where(KeySpending.key_id.in_(key_ids), KeySpending.day == today)
        return {each.key_id: each.spent_cents for each in rows}


def _find(api_key_id: str, context: RequestContext) -> ApiKey:
    own = ApiKey.select().where(ApiKey.client_id == context.client_id)
    return find_by_id(own, ApiKey, api_key_id, "API Key")


def key_of_any_client(id_or_apikey: str, *, locked: bool = False) -> ApiKey:
    """The key of any client with this id or apikey. NOT_FOUND for an unknown one."""
    rows = ApiKey.select().where((ApiKey.id if is_id(id_or_apikey) else ApiKey.apikey) == id_or_apikey)
    row: ApiKey | None = (for_update(rows) if locked else rows).first()
    return require_row(row, "API Key")


def may_read_secret(row: ApiKey | ApiKeySummary, context: RequestContext) -> bool:
    """Whether the caller may read the secret of a key. The roles that may approve are those that may send money."""
    return not powers(row.scopes) or context.may(APPROVE)


def ids_not_read_yet(rows: Iterable[ApiKey], context: RequestContext) -> list[str]:
    """The ids of the keys whose secret the caller has neither made nor read before; none for the operator."""
    person = context.caller.user_id
    return [] if person is None else [row.id for row in rows if person not in _may_know(row)]


def _may_know(row: ApiKey) -> frozenset[str]:
    """Who may know the present secret of a key, whether the client counts readers or not."""
    return behind_secret(row.people, row.readers, counts_readers=True)


def add_reader(key_ids: Sequence[str], context: RequestContext, key_cache: KeyCache, vault: Vault) -> None:
    """Note the caller as a reader of these keys, in every process from the return on."""
    client_id, readers = context.client_id, people_behind_caller(context)
    with key_cache.invalidate(client_id):
        keys = ApiKey.select(ApiKey.id, ApiKey.readers).where(ApiKey.id.in_(key_ids), ApiKey.client_id == client_id)
        for key in for_update(keys.order_by(ApiKey.id)):
            with signed_change(vault, ApiKey, key.id):
                ApiKey.update(readers=readers.union(key.readers or ())).where(ApiKey.id == key.id).execute()
