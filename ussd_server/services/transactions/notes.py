"""Notes that people write on a payment. They stand in the audit trail, and change nothing."""

from __future__ import annotations

from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import AuditEvent, User
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import Note, WriteNote
from ussd_server.services.transactions.transactions import find_transaction
from ussd_server.status import Code, ServiceError

_NOTED = "transaction.noted"
_LONGEST = 200
_MOST_SHOWN = 100


class NoteService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock

    def write(self, request: WriteNote, context: RequestContext) -> None:
        """Write a note on a payment of the client. INVALID_REQUEST unless it has 1 to 200 characters."""
        context.require("transactions:write")
        text = request.text.strip()
        if not 0 < len(text) <= _LONGEST:
            raise ServiceError(Code.INVALID_REQUEST, "note: Must be 1 to 200 characters long.")
        payment = find_transaction(request.transaction_id, context)
        with unit_of_work():
            write_audit_event(
                _NOTED, context, self._clock.now(), client_id=payment.client_id, object_id=payment.id, reason=text
            )

    def list(self, transaction_id: str, context: RequestContext) -> tuple[Note, ...]:
        """The newest 100 notes on a payment of the client, oldest first."""
        context.require("transactions:read")
        rows: Any = (
            AuditEvent.select(AuditEvent, User.email)
            .left_outer_join(User, on=(User.id == AuditEvent.user_id), attr="user")
            .where(
                AuditEvent.object_id == transaction_id,
                AuditEvent.client_id == context.client_id,
                AuditEvent.action == _NOTED,
            )
            .order_by(AuditEvent.id.desc())
            .limit(_MOST_SHOWN)
        )
        return tuple(
            Note(row.created_at, row.user.email if row.user_id else None, row.reason) for row in reversed(list(rows))
        )
