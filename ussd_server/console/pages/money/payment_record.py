"""Everything about one payment: one page, which prints, and one JSON file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import orjson
from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.pages.money.transactions import about_payment
from ussd_server.console.pages.phone.messages import MESSAGE_COLUMNS
from ussd_server.console.pages.service.audit import AUDIT_COLUMNS
from ussd_server.console.tables import DataTable, attachment
from ussd_server.context import RequestContext
from ussd_server.services.audit.messages import AuditEventView, ListAuditEvents
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.movements.messages import MovementView
from ussd_server.services.request_log.messages import RequestDetail
from ussd_server.services.sms.messages import ListSms, SmsView
from ussd_server.services.transactions.messages import TransactionHistory, TransactionView
from ussd_server.services.webhooks.messages import EventDeliveries
from ussd_server.wire import writer

_MOST = 100


@dataclass(frozen=True, slots=True)
class PaymentRecord:
    """What is known of one payment. What the reader may not see is left out."""

    payment: Annotated[TransactionHistory, "The payment: its status history with calls of the provider and postings."]
    request: Annotated[RequestDetail | None, "The call that made it, while it is kept."]
    refunds: Annotated[tuple[TransactionView, ...], "Its refunds."]
    movement: Annotated[MovementView | None, "The money as it was told from outside; for operators."]
    events: Annotated[tuple[EventDeliveries, ...], "Its events with their deliveries."]
    messages: Annotated[tuple[SmsView, ...], "Its receipts by message."]
    audit: Annotated[tuple[AuditEventView, ...], "Who did what to it, newest first."]


@console.page("GET", "/transactions/<transaction_id>/everything", needs="transactions:read")
@console.operators_page("GET", "/operator/transactions/<transaction_id>/everything")
def show_everything(context: RequestContext, transaction_id: str, client: ClientView | None = None) -> Response:
    """The record as a page, or with `?format=json` as a file."""
    about = about_payment(transaction_id, context, client)
    view: TransactionHistory = about["view"]
    record = PaymentRecord(
        view,
        services().request_log.get(about["request_page"], context) if about["request_page"] else None,
        about["refunds"],
        services().movements.of_payment(view.transaction_id, context) if context.caller.operator else None,
        about["events"],
        _messages(view.transaction_id, context),
        _trail(view.transaction_id, context),
    )
    if request.args.get("format") == "json":
        file = Response(orjson.dumps(writer(PaymentRecord)(record)), mimetype="application/json")
        file.headers["Content-Disposition"] = attachment("json", "payment", view.reference)
        return file
    page = render_template(
        "console/transactions/everything.html",
        **about,
        record=record,
        messages=DataTable("Messages", MESSAGE_COLUMNS, record.messages),
        trail=DataTable("Who did what", AUDIT_COLUMNS, record.audit),
        is_whole=True,
    )
    return Response(page)


def _messages(transaction_id: str, context: RequestContext) -> tuple[SmsView, ...]:
    if not context.may("messages:read"):
        return ()
    return tuple(services().sms.list(ListSms(transaction_id=transaction_id, limit=_MOST), context).items)


def _trail(transaction_id: str, context: RequestContext) -> tuple[AuditEventView, ...]:
    if not context.may("audit_events:read"):
        return ()
    return tuple(services().audit.list(ListAuditEvents(object_id=transaction_id, limit=_MOST), context).items)
