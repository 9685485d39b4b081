"""The audit trail: who did what."""

from __future__ import annotations

from dataclasses import replace

from flask import Response, g

from ussd_server.api.requests import services
from ussd_server.console.actions import action_in_words
from ussd_server.console.blueprint import console
from ussd_server.console.links import link_to
from ussd_server.console.tables import PERIOD, Column, DataTable, TableFilter, chosen, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, retold
from ussd_server.services.audit.messages import AuditEventView, ListAuditEvents, ListOperatorActions
from ussd_server.values import is_id, written_amount
from ussd_server.wire import ListPage

_OBJECT_FILTER = TableFilter("object_id", "Id of the object")
AUDIT_COLUMNS = (
    Column("created_at", "When", "moment"),
    Column("who", "Who", "person", value=lambda event: _who(event)),
    Column("did", "Action", "sentence", value=lambda event: action_in_words(event.action), where="page"),
    Column("action", "Action", "code", where="files"),
    Column(
        "object_name",
        "Object",
        "reference",
        value=lambda event: event.object_name or _readable(event.object_id),
        link=lambda event: link_to(event.object_kind or "", event.page_id),
    ),
    Column("details", "Reason", "sentence", value=lambda event: _details(event), where="page"),
    Column("amount", "Amount", "money", where="files"),
    Column("phone_number", "Phone number", where="files"),
    Column("reason", "Reason", where="files"),
    Column("decided_by", "Decided by", where="files"),
    Column("object_id", "Id", "id", where="files"),
    Column("address", "Address", "code", is_minor=True),
    Column("request_id", "Request id", "id", where="files"),
)
_COLUMNS_OF_OPERATORS = (
    AUDIT_COLUMNS[0],
    replace(AUDIT_COLUMNS[1], name="operator"),
    *AUDIT_COLUMNS[2:-3],
    Column("client", "Client", link=lambda event: link_to("client", event.client_id)),
    *AUDIT_COLUMNS[-3:],
)


@console.page("GET", "/audit", needs="audit_events:read")
def list_audit_events(context: RequestContext) -> Response:
    people = services().people.list(ListPage(), context).items if context.may("team:read") else ()
    person = TableFilter("person", "Person", {each.user_id: each.email for each in people})
    filters = {"user_id": person, "action": _action_filter(context), "object_id": _OBJECT_FILTER, **PERIOD}
    page = pages(services().audit.list, ListAuditEvents(**chosen(filters)), context)
    table = DataTable("Audit trail, newest first", AUDIT_COLUMNS, page, filters.values())
    return show_table("console/audit.html", table)


@console.page("GET", "/operator/audit", who="operator")
def list_operator_actions(context: RequestContext) -> Response:
    """What operators did, for any client and at the command line, and sign-ins under unknown addresses."""
    operators = [each.email for each in services().operators.list(context)]
    operator = TableFilter("operator", "Operator", {email: email for email in operators})
    filters = {"operator": operator, "action": _action_filter(context), "object_id": _OBJECT_FILTER, **PERIOD}
    table = DataTable(
        "What operators did, newest first",
        _COLUMNS_OF_OPERATORS,
        pages(services().audit.list_of_operators, ListOperatorActions(**chosen(filters)), context),
        filters.values(),
        empty_title="Nothing was done yet",
        empty_text="What operators do here and at the command line appears here.",
    )
    return show_table("console/operator/audit.html", table)


def _action_filter(context: RequestContext) -> TableFilter:
    return TableFilter("action", "Action", {each: action_in_words(each) for each in services().audit.actions(context)})


def _details(event: AuditEventView) -> str:
    """The reason, behind the amount and the number of a payment."""
    amount = None if event.amount_cents is None else written_amount(event.amount_cents)
    return ", ".join(filter(None, (amount, event.phone_number, retold(event.reason or ""))))


def _readable(name: str | None) -> str | None:
    """What names an object without a page; an id is shown to operators alone."""
    return name if g.person.is_operator or not is_id(name or "") else None


def _who(event: AuditEventView) -> str:
    """Who did it: a key, a person, the operators by their names; for operators also the one who signed in."""
    if event.key_id:
        return gettext("API key %(title)s", title=event.apikey or event.key_id)
    if event.actor == "operator":
        nobody = "Command line" if g.person.is_operator else "Operator"
        return event.operator or event.decided_by or gettext(nobody)
    return event.email or gettext("Unknown person")
