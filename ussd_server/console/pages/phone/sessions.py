"""Sessions: listed, and one as the conversation that it was."""

from __future__ import annotations

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.links import link_to
from ussd_server.console.tables import PERIOD, PHONE_NUMBER, Column, DataTable, TableFilter, chosen, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.menus.messages import ReplayItem, ReplayMenu
from ussd_server.services.transactions.messages import GetTransaction, TransactionView
from ussd_server.services.ussd.messages import EndReason, ListSessions, SessionStatus, SessionView
from ussd_server.status import ServiceError

_COLUMNS = (
    Column("created_at", "When", "moment", link=lambda row: link_to("session", row.session_id)),
    Column("phone_number", "Phone number", "phone"),
    Column("service_code", "Code", "phone"),
    Column("menu_id", "Menu", "word"),
    Column("status", "Status", "status"),
    Column("node", "Last node", "code", is_minor=True),
    Column("turn", "Entries", "number", is_minor=True),
    Column("ended", "Why it ended", "word", value=lambda row: _shortly(row), where="page"),
    Column("end_reason", "Why it ended", where="files"),
    Column("transaction_id", "Payment", "id", where="files"),
    Column("session_id", "Id", "id", where="files"),
)
_STATUSES = {word.value: word.value.replace("_", " ") for word in SessionStatus}
_FILTERS = {
    "phone_number": PHONE_NUMBER,
    "service_code": TableFilter("service_code", "Code", placeholder="*165#"),
    "status": TableFilter("status", "Status", _STATUSES, read=SessionStatus),
    **PERIOD,
}

# What the subscriber did, or what happened.
_SHORTLY = marked(
    {
        EndReason.LAST_SCREEN: "Came to the end",
        EndReason.NOT_DELIVERED: "Was not delivered",
        EndReason.HUNG_UP: "Hung up",
        EndReason.ABANDONED: "Left without answer",
        EndReason.REDIALLED: "Dialled again",
        EndReason.IDLE: "No answer in time",
        EndReason.TOO_LONG: "Took too long",
        EndReason.TOO_MANY_TURNS: "Too many entries",
        EndReason.DELETED: "Ended by your program",
        EndReason.KEY_DELETED: "Its API key was deleted",
    }
)
_WHY = {
    EndReason.LAST_SCREEN: "The menu came to its last screen.",
    EndReason.NOT_DELIVERED: "The gateway could not deliver the last screen to the phone.",
    EndReason.HUNG_UP: "The subscriber hung up.",
    EndReason.ABANDONED: "The gateway reported that the subscriber left without an answer.",
    EndReason.REDIALLED: "The subscriber dialled again, and a new session began.",
    EndReason.IDLE: "The subscriber did not answer in time.",
    EndReason.TOO_LONG: "The session reached its longest duration.",
    EndReason.TOO_MANY_TURNS: "The session reached its largest number of entries.",
    EndReason.DELETED: "Your program ended it.",
    EndReason.KEY_DELETED: "The API key that it began with was deleted.",
}


@console.page("GET", "/sessions", needs="ussd:read")
@console.operators_page("GET", "/operator/clients/<client_id>/sessions")
def list_sessions(context: RequestContext, client: ClientView | None = None) -> Response:
    table = DataTable(
        "Sessions, newest first",
        _COLUMNS,
        pages(services().api_sessions.list, ListSessions(**chosen(_FILTERS)), context),
        _FILTERS.values(),
        empty_title="No session yet",
        empty_text="" if client else "Each dial of one of your codes appears here. Try it with the phone.",
    )
    return show_table("console/sessions/list.html", table, client=client)


@console.page("GET", "/sessions/<session_id>", needs="ussd:read", shows="session")
@console.operators_page("GET", "/operator/sessions/<session_id>", shows="session")
def show_session(context: RequestContext, session_id: str, client: ClientView | None = None) -> str:
    """One session. With `replay` in its address, people of its client also see how it would go in the menu's draft."""
    view = services().api_sessions.get(session_id, context)
    replayed, error = None, None
    if "replay" in request.args and client is None:
        try:
            replayed = _replayed(view, context)
        except ServiceError as refusal:
            error = refusal
    return render_template(
        "console/sessions/session.html",
        seen=view,
        why=_why(view),
        payment=_payment(view, context),
        client=client,
        replayed=replayed,
        error=error,
    )


def _payment(seen: SessionView, context: RequestContext) -> TransactionView | None:
    """The payment that the session made, where the person may see it."""
    if seen.transaction_id is None or not context.may("transactions:read"):
        return None
    return services().transactions.get(GetTransaction(seen.transaction_id), context)


def _replayed(seen: SessionView, context: RequestContext) -> ReplayItem:
    (item,) = services().replays.replay(ReplayMenu(seen.menu_id, (seen.session_id,)), context)
    return item


def _shortly(seen: SessionView) -> str | None:
    return None if seen.end_reason is None else _SHORTLY[EndReason(seen.end_reason)]


def _why(seen: SessionView) -> str:
    if seen.end_reason is None:
        return gettext("It is still open.")
    return gettext(_WHY[EndReason(seen.end_reason)])
