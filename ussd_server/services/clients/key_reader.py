"""API keys as pages show them: without their secrets, which are shown one at a time when asked for."""

from __future__ import annotations

from datetime import datetime

from ussd_server.context import APPROVE, RequestContext
from ussd_server.database.ids import is_id
from ussd_server.models.keys import ApiKey
from ussd_server.runtime import Runtime
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.key_messages import ApiKeySummary, CallWindow, ShowApiKey, approves
from ussd_server.status import Code, ServiceError

_MAY_NOT = "Insufficient permissions"


class ApiKeyReader:
    """Shows a client's keys to people who may see them, and secrets to people who may list them."""

    def __init__(self, runtime: Runtime) -> None:
        self._vault = runtime.vault
        self._limiter = runtime.limiter
        self._clock = runtime.clock

    def list(self, context: RequestContext) -> tuple[ApiKeySummary, ...]:
        """All keys of the client (50 at most), newest first."""
        context.require("api_keys:list", _MAY_NOT)
        rows = list(ApiKey.select().where(ApiKey.client_id == context.client_id).order_by(ApiKey.id.desc()))
        last_hits = self._limiter.last_hits("api-key", [row.id for row in rows])
        return tuple(self._summary(row, last_hit) for row, last_hit in zip(rows, last_hits, strict=True))

    def show(self, request: ShowApiKey, context: RequestContext) -> ApiKeySummary:
        """One key. NOT_FOUND for a key that is not the client's."""
        context.require("api_keys:list", _MAY_NOT)
        row = self._find(request, context)
        (last_hit,) = self._limiter.last_hits("api-key", [row.id])
        return self._summary(row, last_hit)

    def calls(self, request: ShowApiKey, context: RequestContext) -> tuple[CallWindow, ...]:
        """The key's calls of the last minute and hour. NOT_FOUND for a key that is not the client's."""
        context.require("api_keys:list", _MAY_NOT)
        decision = self._limiter.peek("api-key", self._find(request, context).id)
        return tuple(
            CallWindow(window.name, window.limit, window.limit - window.remaining) for window in decision.windows
        )

    def reveal(self, request: ShowApiKey, context: RequestContext) -> str:
        """The secret of a key, noted in the audit trail. NOT_FOUND for a key that is not the client's.

        INSUFFICIENT_SCOPE for a key that may approve payouts where the caller may not.
        """
        context.require("api_keys:list", _MAY_NOT)
        row = self._find(request, context)
        if approves(row.scopes):
            context.require(APPROVE, _MAY_NOT)
        write_audit_event("api_key.revealed", context, self._clock.now(), client_id=context.client_id, object_id=row.id)
        return self._vault.decrypt(row.secret_sealed, row.client_id, row.id)

    def _find(self, request: ShowApiKey, context: RequestContext) -> ApiKey:
        row: ApiKey | None = None
        if is_id(request.api_key_id):
            row = ApiKey.get_or_none(ApiKey.id == request.api_key_id, ApiKey.client_id == context.client_id)
        if row is None:
            raise ServiceError(Code.NOT_FOUND, "API Key not found")
        return row

    def _summary(self, row: ApiKey, last_hit: datetime | None) -> ApiKeySummary:
        now = self._clock.now()
        used = [moment for moment in (row.last_used_at, last_hit) if moment]
        grace_ends = row.previous_secret_expires_at
        return ApiKeySummary(
            id=row.id, client_id=row.client_id, apikey=row.apikey, scopes=row.scopes, is_active=bool(row.is_active),
            is_expired=row.expires_at is not None and row.expires_at <= now,
            created_at=row.created_at, updated_at=row.updated_at, expires_at=row.expires_at,
            last_used_at=max(used, default=None),
            previous_secret_expires_at=grace_ends if grace_ends and grace_ends > now else None,
        )  # fmt: skip
