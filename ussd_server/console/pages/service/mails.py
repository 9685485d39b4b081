"""Mails: which ones a person receives, and the state of each."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.tables import Column, DataTable, TableFilter, pages, show_table
from ussd_server.context import CallerKind, RequestContext
from ussd_server.services.mail.messages import ListMails, MailStatus

_COLUMNS = (
    Column("created_at", "Written", "moment"),
    Column("title", "Mail"),
    Column("kind", "Kind", "code", where="files"),
    Column("recipient", "For"),
    Column("status", "State", "status"),
    Column("attempts", "Attempts", "number"),
    Column("trouble", "Trouble"),
    Column("next_attempt_at", "Next attempt", "moment", where="files"),
    Column("completed_at", "Ended", "moment", where="files"),
    Column("mail_id", "Id", "id", where="files"),
)

_STATUS = TableFilter("status", "State", {status.value: status.value for status in MailStatus}, read=MailStatus)


@console.page("GET", "/notifications")
@console.page("GET", "/operator/notifications", who="operator", name="show_operator_notifications")
def show_notifications(context: RequestContext) -> str:
    return render_template("console/mails/choices.html", choices=services().mails.choices(context))


@console.page("POST", "/notifications")
@console.page("POST", "/operator/notifications", who="operator", name="choose_operator_notifications")
def choose_notifications(context: RequestContext) -> Any:
    """Receive the mails that were chosen, and no others."""
    services().mails.choose(request.form.getlist("wanted"), context)
    is_operator = context.caller.kind is CallerKind.OPERATOR
    return done("Your choice is saved.", "show_operator_notifications" if is_operator else "show_notifications")


@console.page("GET", "/operator/mails", who="operator")
def list_mails(context: RequestContext) -> Response:
    """Every mail of the last 30 days, without its text."""
    table = DataTable(
        "Mails, newest first",
        _COLUMNS,
        pages(services().mails.list, ListMails(_STATUS.value, cursor=request.args.get("cursor")), context),
        (_STATUS,),
        empty_title="No mails yet",
        empty_text="Mails are written with what they report and kept for 30 days.",
    )
    return show_table("console/mails/list.html", table)
