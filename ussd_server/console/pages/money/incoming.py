"""Held payments: what payers sent by themselves and that fits nothing. Two operators end each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, shown_again
from ussd_server.console.links import link_to
from ussd_server.console.pages.service.proposals import proposal_about, propose
from ussd_server.console.tables import PROVIDER, Column, DataTable, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.services.incoming.messages import HoldDifference
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage

_COLUMNS = (
    Column("received_at", "Reported", "moment", link=lambda each: link_to("incoming", each.incoming_id)),
    PROVIDER,
    Column("provider_transaction_id", "Receipt", "reference"),
    Column("amount", "Amount", "money"),
    Column("phone_number", "Payer", "code", missing="unknown"),
    Column("name", "Name", where="files"),
    Column("code", "Typed", missing="nothing"),
    Column("held_because", "Why", "sentence"),
    Column("suggestions", "Perhaps", value=lambda each: ", ".join(each.suggestions), missing="no suggestion"),
    Column("incoming_id", "Id", "id", where="files"),
)


@console.page("GET", "/operator/incoming", who="operator")
def list_incoming(context: RequestContext) -> Response:
    page = pages(services().held_payments.list, ListPage(cursor=request.args.get("cursor")), context)
    table = DataTable(
        "Held payments, newest first",
        _COLUMNS,
        page,
        empty_title="No payment is held",
        empty_text="Payments whose code, amount or client fits nothing appear here.",
    )
    return show_table("console/incoming/list.html", table, attention_count=len(page.items))


@console.page("GET", "/operator/incoming/<incoming_id>", who="operator", shows="incoming")
def show_incoming(context: RequestContext, incoming_id: str) -> str:
    return _page(incoming_id, context)


@console.page("POST", "/operator/incoming/<incoming_id>/assign", who="operator")
def propose_assignment(context: RequestContext, incoming_id: str) -> Any:
    code = request.form.get("code", "").strip()
    with _shown_again(incoming_id, context):
        return propose("incoming.assign", incoming_id, context, f"The payer meant {code}"[:200], code=code)


@console.page("POST", "/operator/incoming/<incoming_id>/return", who="operator")
def propose_return(context: RequestContext, incoming_id: str) -> Any:
    with _shown_again(incoming_id, context):
        return propose("incoming.return", incoming_id, context)


@console.page("POST", "/operator/differences/<difference_id>/hold", who="operator")
def hold_difference(context: RequestContext, difference_id: str) -> Any:
    """Hold a statement's credit that no transaction of ours matches."""
    held = services().held_payments.hold(HoldDifference(difference_id, context.caller.operator or ""), context)
    return done(
        "The payment is held. Assign it to a code, or mark it for return.",
        "show_incoming",
        incoming_id=held.incoming_id,
    )


def _shown_again(incoming_id: str, context: RequestContext) -> AbstractContextManager[None]:
    return shown_again(lambda error: _page(incoming_id, context, error), Code.NOT_FOUND)


def _page(incoming_id: str, context: RequestContext, error: ServiceError | None = None) -> str:
    payment = services().held_payments.show(incoming_id, context)
    is_proposed = proposal_about(incoming_id, context) is not None
    return render_template("console/incoming/payment.html", payment=payment, error=error, is_proposed=is_proposed)
