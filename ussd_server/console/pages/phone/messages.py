"""Messages (SMS): listed, and one with its delivery."""

from __future__ import annotations

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, TableFilter, show_table
from ussd_server.context import RequestContext
from ussd_server.services.sms.messages import ListSms, NameSms, SmsStatus

_COLUMNS = (
    Column("created_at", "When", "moment", link=lambda message: link_to("message", message.message_id)),
    Column("phone_number", "Phone number", "code"),
    Column("text", "Text"),
    Column("parts", "Parts", "number"),
    Column("status", "Status", "status", value=lambda message: message.status.value),
    Column("failure", "Why it failed", value=lambda message: message.failure.message if message.failure else ""),
    Column("reference", "Reference", "reference", where="files"),
    Column("transaction_id", "Payment", "id", where="files"),
    Column("completed_at", "Ended", "moment", where="files"),
    Column("message_id", "Id", "id", where="files"),
)


@console.page("GET", "/messages", needs="messages:read")
def list_messages(context: RequestContext) -> Response:
    """The client's messages, newest first."""
    state = TableFilter("status", "Status", {status.value: status.value for status in SmsStatus})
    number = TableFilter("phone_number", "Phone number", placeholder="0772123456")
    wanted = ListSms(
        cursor=request.args.get("cursor"),
        status=SmsStatus(state.chosen) if state.chosen else None,
        phone_number=forms.phone_number(number.chosen) or number.chosen or None,
    )
    page = services().sms.list(wanted, context)
    table = DataTable(
        "Messages, newest first",
        _COLUMNS,
        page.items,
        page.next_cursor,
        filters=(state, number),
        empty_title="No message yet",
        empty_text="Messages of your programs and menus, and receipts of payments, appear here.",
    )
    return show_table("console/messages/list.html", table, is_on=services().sms.is_on)


@console.page("GET", "/messages/<message_id>", needs="messages:read")
def show_message(context: RequestContext, message_id: str) -> str:
    """One message."""
    message = services().sms.get(NameSms(message_id), context)
    return render_template("console/messages/message.html", message=message)
