"""The whole record of a key: shown, and changed without a new secret."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ussd_server.context import APPROVE, RequestContext
from ussd_server.models.keys import ApiKey, KeySpending
from ussd_server.runtime import Runtime, Service
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.keys.messages import (
    HIDDEN_SECRET,
    UNCHANGED,
    ApiKeyRecord,
    OwnKey,
    OwnWindow,
    UpdateApiKey,
    approves,
)
from ussd_server.services.clients.keys.reader import ApiKeyReader
from ussd_server.services.clients.keys.values import (
    BAD_BODY,
    MAY_NOT,
    NOT_FOUND,
    columns_of,
    lock_client,
    require_well_formed,
    require_within_role,
)
from ussd_server.services.request_log.requests import RequestLogService
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds, kampala_day


class ApiKeyRecordService(Service):
    """Shows and changes whole records of keys."""

    def __init__(self, runtime: Runtime, reader: ApiKeyReader, requests: RequestLogService) -> None:
        super().__init__(runtime)
        self._reader = reader
        self._requests = requests

    def get(self, api_key_id: str, context: RequestContext) -> ApiKeyRecord:
        """One key with its secret, hidden in a key that approves payouts from callers who may not approve.

        INVALID_REQUEST for a malformed id, NOT_FOUND for a key that is not the client's.
        """
        context.require("api_keys:list", MAY_NOT)
        require_well_formed([api_key_id])
        return self._record(api_key_id, context)

    def update(self, request: UpdateApiKey, context: RequestContext) -> ApiKeyRecord:
        """Change a key and show it with its secret, as `change` and `get` do."""
        self.change(request, context)
        return self._record(request.api_key_id, context)

    def change(self, request: UpdateApiKey, context: RequestContext) -> None:
        """Change a key. On return no process acts on its old values.

        INVALID_REQUEST for a malformed id, bad values, and for a key that would gain `payouts:approve`; NOT_FOUND for a
        key that is not the client's; INSUFFICIENT_SCOPE where the key may do more than the caller's role gives, before
        or after.
        """
        context.require("api_keys:rotate", MAY_NOT)
        require_well_formed([request.api_key_id])
        now = self._clock.now()
        columns = columns_of(request, now)
        if request.is_active is not UNCHANGED:
            columns["is_active"] = bool(request.is_active)
        with self._key_cache.invalidate(context.client_id):
            lock_client(context.client_id)
            row = ApiKey.get_or_none(ApiKey.id == request.api_key_id, ApiKey.client_id == context.client_id)
            if row is None:
                raise ServiceError(Code.NOT_FOUND, NOT_FOUND)
            require_within_role(row.scopes, context)
            changed = {name: value for name, value in columns.items() if getattr(row, name) != value}
            _require_less_power(row, changed, context)
            if changed:
                ApiKey.update(updated_at=now, **changed).where(ApiKey.id == row.id).execute()
                _write_audit(row, changed, context, now)

    def own(self, context: RequestContext) -> OwnKey:
        """What the calling key may do, and what is left of its limits."""
        row, now = ApiKey.get_or_none(ApiKey.id == context.caller.key_id), self._clock.now()
        if row is None:
            # The key was deleted since the call was authenticated.
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid API key or secret")
        windows = self._limiter.peek("api-key", row.id).windows
        spent_cents = (
            KeySpending.select(KeySpending.spent_cents)
            .where(KeySpending.key_id == row.id, KeySpending.day == kampala_day(now))
            .scalar()
        )
        limit_cents = row.daily_limit_cents
        return OwnKey(
            row.id,
            row.name,
            row.scopes,
            row.expires_at,
            {each.name: OwnWindow(each.limit, each.remaining, each.reset_seconds) for each in windows},
            limit_cents,
            None if limit_cents is None else max(0, limit_cents - (spent_cents or 0)),
        )

    def _record(self, api_key_id: str, context: RequestContext) -> ApiKeyRecord:
        key = self._reader.show(api_key_id, context)
        is_hidden = approves(key.scopes) and not context.may(APPROVE)
        used = self._requests.used_scopes(key.id)
        return ApiKeyRecord(
            id=key.id,
            client_id=key.client_id,
            apikey=key.apikey,
            apisecret=HIDDEN_SECRET if is_hidden else self._reader.reveal(api_key_id, context),
            scopes=key.scopes,
            is_active=int(key.is_active),
            created_at=iso_milliseconds(key.created_at),
            updated_at=iso_milliseconds(key.updated_at),
            expires_at=_written(key.expires_at),
            last_used_at=_written(key.last_used_at),
            name=key.name,
            created_by=key.created_by,
            allowed_addresses=key.allowed_addresses,
            daily_limit_cents=key.daily_limit_cents,
            last_used_address=key.last_used_address,
            used_scopes=used,
            suggested_scopes=" ".join(used) or None,
        )


def _require_less_power(row: ApiKey, changed: dict[str, Any], context: RequestContext) -> None:
    """Refuse scopes that the caller may not give, and approval for a secret that other people may have read."""
    if "scopes" in changed:
        require_within_role(changed["scopes"], context)
        if approves(changed["scopes"]) and not approves(row.scopes):
            raise ServiceError(
                Code.INVALID_REQUEST,
                f"{BAD_BODY}: scopes: Only a new key can get payouts:approve, because people who may not approve may "
                "have read the secret of this one.",
            )
    if changed.get("is_active"):
        raise ServiceError(Code.INVALID_REQUEST, f"{BAD_BODY}: is_active: The provider's support enables keys.")


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else iso_milliseconds(moment)


def _write_audit(row: ApiKey, changed: dict[str, Any], context: RequestContext, now: datetime) -> None:
    """A line about the fields that changed, and one of its own about a key that is disabled."""
    fields = [name.removesuffix("_cents") for name in changed if name != "is_active"]
    about = {"client_id": row.client_id, "object_id": row.id}
    if fields:
        write_audit_event("api_key.updated", context, now, reason=", ".join(fields), **about)
    if "is_active" in changed:
        write_audit_event("api_key.disabled", context, now, **about)
