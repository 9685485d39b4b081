"""The audit trail: who did what."""

from __future__ import annotations

from flask import Response, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.tables import Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.messages.clients import AuditEventView, ListAuditEvents

_COLUMNS = (
    Column("created_at", "When", "moment"),
    Column("who", "Who", value=lambda event: _who(event)),
    Column("action", "Action", "code"),
    Column("reason", "Reason"),
    Column("object_id", "Object", "id"),
    Column("address", "Address", "code"),
    Column("request_id", "Request id", "id"),
)


@console.page("GET", "/audit", needs="audit_events:read")
def list_audit_events(context: RequestContext) -> Response:
    """Who did what to which key, and every login."""
    page = services().audit.list(ListAuditEvents(cursor=request.args.get("cursor")), context)
    table = DataTable("Audit trail, newest first", _COLUMNS, page.items, page.next_cursor)
    return show_table("console/audit.html", table)


def _who(event: AuditEventView) -> str:
    if event.actor == "operator":
        return "Operator"
    return event.email or "Unknown person"
