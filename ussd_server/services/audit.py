"""The audit trail: who did what to which object, kept for the client's owners."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ussd_server.context import CallerKind, RequestContext
from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.database.ids import new_id
from ussd_server.messages.clients import AuditEventPage, AuditEventView, ListAuditEvents
from ussd_server.models.clients import AuditEvent, User
from ussd_server.security.tokens import Tokens
from ussd_server.services.pages import page_of
from ussd_server.status import Code, ServiceError

_WRITE = CompiledQuery(lambda: AuditEvent.insert({field: param(field) for field in AuditEvent._meta.sorted_fields}))


def write_audit_event(
    action: str,
    context: RequestContext,
    now: datetime,
    *,
    client_id: str | None,
    user_id: str | None = None,
    object_id: str | None = None,
    operator: str | None = None,
    reason: str | None = None,
    is_automatic: bool = False,
) -> None:
    """Add to the audit trail of `client_id`. Call in the unit of work of the change.

    `user_id` or `operator` names the person where the call does not. `client_id` is None for what concerns no client,
    and for a login under an e-mail address that no user has. `is_automatic` is what the service did by itself.
    """
    is_operator = context.caller.kind is CallerKind.OPERATOR
    person = "operator" if is_operator or operator else "user"
    _WRITE.run(
        id=new_id(now),
        client_id=client_id,
        user_id=user_id or (None if is_operator else context.caller.user_id),
        actor="service" if is_automatic else person,
        action=action,
        object_id=object_id,
        address=context.address,
        request_id=context.request_id,
        created_at=now,
        operator=operator or context.caller.operator,
        reason=reason or None,
    )


class AuditService:
    """Shows a client's audit trail."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def list(self, request: ListAuditEvents, context: RequestContext) -> AuditEventPage:
        """One page, newest first. INVALID_REQUEST for a cursor that is not of this list."""
        context.require("audit_events:read", "Insufficient permissions")
        rows = (
            AuditEvent.select(AuditEvent, User.email)
            .left_outer_join(User, on=(User.id == AuditEvent.user_id), attr="user")
            .where(AuditEvent.client_id == context.client_id)
        )
        try:
            found, next_cursor = page_of(rows, AuditEvent, request.cursor, request.limit, self._tokens)
        except ServiceError:
            raise ServiceError(Code.INVALID_REQUEST, "Invalid query parameters") from None
        return AuditEventPage(tuple(map(_view, found)), next_cursor)


def _view(row: Any) -> AuditEventView:
    return AuditEventView(
        id=row.id,
        action=row.action,
        actor=row.actor,
        user_id=row.user_id,
        email=row.user.email if row.user_id else None,
        object_id=row.object_id,
        address=row.address,
        request_id=row.request_id,
        created_at=row.created_at,
        reason=row.reason,
    )
