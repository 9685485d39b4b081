"""The audit trail: who did what."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.tables import Column, DataTable, TableFilter, show_table
from ussd_server.context import RequestContext
from ussd_server.services.audit.messages import AuditEventView, ListAuditEvents, ListOperatorActions
from ussd_server.values import written_amount

_FILES = (
    Column("amount", "Amount", "money", value=lambda event: event.amount_cents, where="files"),
    Column("phone_number", "Phone number", where="files"),
    Column("reason", "Reason", where="files"),
    Column("decided_by", "Decided by", where="files"),
)
_COLUMNS_OF_OPERATORS = (
    Column("created_at", "When", "moment"),
    Column("operator", "Who", value=lambda event: event.operator or _who_without_account(event)),
    Column("action", "Action", "code"),
    Column("details", "Details", value=lambda event: _details(event, {}), where="page"),
    *_FILES,
    Column("client", "Client", link=lambda event: _client_page(event.client_id)),
    Column("object_id", "Object", "id"),
    Column("address", "Address", "code"),
    Column("request_id", "Request id", "id", where="files"),
)


@console.page("GET", "/audit", needs="audit_events:read")
def list_audit_events(context: RequestContext) -> Response:
    """Who did what, and every login."""
    page = services().audit.list(ListAuditEvents(cursor=request.args.get("cursor")), context)
    names = services().team.names([each for event in page.items for each in (event.key_id, event.object_id)], context)
    table = DataTable("Audit trail, newest first", _columns(names), page.items, page.next_cursor)
    return show_table("console/audit.html", table)


@console.page("GET", "/operator/audit", who="operator")
def list_operator_actions(context: RequestContext) -> Response:
    """What operators did, for any client and at the command line, and sign-ins under unknown addresses."""
    operators = [each.email for each in services().operators.list(context)]
    chosen = TableFilter("operator", "Operator", {email: email for email in operators})
    wanted = ListOperatorActions(request.args.get("cursor"), chosen.chosen or None)
    page = services().audit.list_of_operators(wanted, context)
    table = DataTable(
        "What operators did, newest first",
        _COLUMNS_OF_OPERATORS,
        page.items,
        page.next_cursor,
        (chosen,),
        empty_title="Nothing was done yet",
        empty_text="What operators do here and at the command line appears here.",
    )
    return show_table("console/operator/audit.html", table)


def _columns(names: Mapping[str, str]) -> tuple[Column, ...]:
    """The columns of the trail; `names` are those of people and keys by their ids."""
    return (
        Column("created_at", "When", "moment"),
        Column("who", "Who", value=lambda event: _who(event, names)),
        Column("action", "Action", "code"),
        Column("details", "Details", value=lambda event: _details(event, names), where="page"),
        *_FILES,
        Column("object_id", "Object", "id"),
        Column("address", "Address", "code"),
        Column("request_id", "Request id", "id"),
    )


def _details(event: AuditEventView, names: Mapping[str, str]) -> str:
    """The name of the key or person that was changed, the amount and the number of a payment, and the reason."""
    amount = None if event.amount_cents is None else written_amount(event.amount_cents)
    return ", ".join(filter(None, (names.get(event.object_id or ""), amount, event.phone_number, event.reason)))


def _who(event: AuditEventView, names: Mapping[str, str]) -> str:
    if event.actor == "operator":
        return f"Operators {event.decided_by}" if event.decided_by else "Operator"
    if event.key_id:
        return names.get(event.key_id, f"API key {event.key_id}, deleted")
    return event.email or "Unknown person"


def _who_without_account(event: AuditEventView) -> str:
    if event.actor == "operator":
        return f"Command line: {event.decided_by}" if event.decided_by else "Command line"
    return "Unknown person"


def _client_page(client_id: str | None) -> str | None:
    return url_for("console.show_client", client_id=client_id) if client_id else None
