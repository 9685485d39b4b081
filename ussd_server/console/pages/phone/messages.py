"""Messages (SMS): listed, one with its delivery, and the texts of receipts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flask import Response, render_template, request
from markupsafe import Markup
from marshmallow import ValidationError

from schemas.messages import ReceiptTexts
from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.links import link_to
from ussd_server.console.tables import PHONE_NUMBER, Column, DataTable, TableFilter, chosen, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.services.sms.messages import ListSms, ReceiptPreview, SmsStatus, UpdateReceipts
from ussd_server.status import Code, ServiceError

_RECEIPTS = {
    "collection": "Collections: to the payer",
    "disbursement": "Disbursements: to the payee",
    "refund": "Refunds: to the payer",
    "transfer": "Transfers: to whose account is debited",
}
MESSAGE_COLUMNS = (
    Column("created_at", "When", "moment", link=lambda message: link_to("message", message.message_id)),
    Column("phone_number", "Phone number", "phone"),
    Column("text", "Text"),
    Column("parts", "Parts", "number"),
    Column("status", "Status", "status"),
    Column(
        "failure", "Why it failed", "sentence", value=lambda message: message.failure.message if message.failure else ""
    ),
    Column("reference", "Reference", "reference", where="files"),
    Column("transaction_id", "Payment", "id", where="files"),
    Column("completed_at", "Ended", "moment", where="files"),
    Column("message_id", "Id", "id", where="files"),
)

_FILTERS = {
    "status": TableFilter("status", "Status", {status.value: status.value for status in SmsStatus}, read=SmsStatus),
    "phone_number": replace(PHONE_NUMBER, placeholder="0772123456"),
}


@console.page("GET", "/messages", needs="messages:read")
def list_messages(context: RequestContext) -> Response:
    table = DataTable(
        "Messages, newest first",
        MESSAGE_COLUMNS,
        pages(services().sms.list, ListSms(**chosen(_FILTERS)), context),
        _FILTERS.values(),
        empty_title="No message yet",
        empty_text="Messages of your programs and menus, and receipts of payments, appear here.",
    )
    return show_table("console/messages/list.html", table, is_on=services().sms.is_on)


@console.page("GET", "/messages/receipts", needs="settings:read")
def show_receipts(context: RequestContext) -> str:
    """The texts of receipts, as they are or were typed."""
    receipts = _typed_texts() if request.form else services().receipts.get(context)
    return render_template(
        "console/messages/receipts.html",
        kinds=_RECEIPTS,
        receipts=receipts,
        previews=Markup(_previews(receipts)),  # noqa: S704 - a template made it
        is_on=services().sms.is_on,
    )


@console.page("POST", "/messages/receipts/preview", needs="settings:read")
def preview_receipts(_: RequestContext) -> str:
    """How the texts of the form read, and how long they are; a live part of the page."""
    return _previews(_typed_texts())


@console.page("POST", "/messages/receipts", needs="settings:write", form_on="show_receipts")
def save_receipts(context: RequestContext) -> Any:
    """Replace the texts of all receipts by those of the form."""
    try:
        receipts = ReceiptTexts().deserialize(_typed_texts())
    except ValidationError as fault:
        raise ServiceError(Code.INVALID_REQUEST, str(fault.messages[0])) from None
    services().receipts.update(UpdateReceipts(receipts), context)
    return done("The texts of receipts are saved.", "show_receipts")


@console.page("GET", "/messages/<message_id>", needs="messages:read", shows="message")
def show_message(context: RequestContext, message_id: str) -> str:
    message = services().sms.get(message_id, context)
    return render_template("console/messages/message.html", message=message)


def _typed_texts() -> dict[str, dict[str, str]]:
    return {kind: _texts_of(kind) for kind in _RECEIPTS}


def _texts_of(kind: str) -> dict[str, str]:
    """The texts of a form for one type of payment by language; a row without a text is left out."""
    languages, texts = request.form.getlist(f"{kind}.language"), request.form.getlist(f"{kind}.text")
    rows = zip(languages, (text.replace("\r\n", "\n").strip() for text in texts), strict=False)
    return {language.strip(): text for language, text in rows if text}


def _previews(receipts: Mapping[str, Mapping[str, str]]) -> str:
    previews: list[tuple[str, str, ReceiptPreview | None, str]] = []
    for kind, texts in receipts.items():
        for language, text in texts.items():
            try:
                previews.append((_RECEIPTS[kind], language, services().receipts.preview(text), ""))
            except ServiceError as error:
                previews.append((_RECEIPTS[kind], language, None, error.message.rpartition("text: ")[2]))
    return render_template("console/messages/previews.html", previews=previews)
