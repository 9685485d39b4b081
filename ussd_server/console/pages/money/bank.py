"""Bank accounts and settlements: what a client is paid to its bank, seen by the client and by operators."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask import Response, g, redirect, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, fault_of
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, send_csv, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.bank.messages import (
    LARGEST_FILE_BYTES,
    ConfirmBankAccount,
    DueSettlement,
    ProposeSettlements,
    StateBankAccount,
)
from ussd_server.services.operators.messages import Propose
from ussd_server.status import ServiceError

_SETTLED_COLUMNS = (
    Column("created_at", "Proposed", "moment", link=lambda each: link_to("transaction", each.settlement_id)),
    Column("client", "Client"),
    Column("amount", "Amount", "money"),
    Column("status", "Status", "status"),
    Column("bank_account", "Bank account"),
    Column("bank_reference", "Bank reference", "reference"),
    Column("by", "By", where="files"),
    Column("and", "Confirmed", value=lambda each: each.and_, where="files"),
    Column("settlement_id", "Id", "id", where="files"),
)


_OWN_COLUMNS = tuple(each for each in _SETTLED_COLUMNS if each.where != "files" and each.name != "client")


@console.page("GET", "/bank-account", needs="statements:read")
def show_bank_account(context: RequestContext) -> str:
    account = services().bank_accounts.show(context)
    settled = DataTable("Settlements, newest first", _OWN_COLUMNS, services().bank_settlements.list(context))
    return render_template(
        "console/bank/account.html", account=account, form=forms.typed(asdict(account)), settled=settled
    )


@console.page("POST", "/bank-account", needs="bank_account:write", fresh_code=True, form_on="show_bank_account")
def state_bank_account(context: RequestContext) -> Any:
    """State another bank account; an operator confirms it before it is used."""
    stated = StateBankAccount(*(request.form.get(part, "") for part in ("bank", "number", "name")))
    services().bank_accounts.state(stated, context)
    return done(
        "The bank account is stated. Nothing is paid to it before the operator has confirmed it.", "show_bank_account"
    )


@console.page("GET", "/operator/settlements", who="operator")
def list_settlements(context: RequestContext) -> Response:
    """What clients are due, bank accounts that wait for a confirmation, and the newest settlements."""
    day = forms.date_of(request.args.get("date", ""))
    due: list[DueSettlement] = []
    error = g.get("refusal")
    try:
        due += services().bank_settlements.due(day, context)
    except ServiceError as refusal:
        error = error or refusal
    table = DataTable(
        "Settlements, newest first",
        _SETTLED_COLUMNS,
        services().bank_settlements.list(context),
        empty_title="Nothing was settled yet",
        empty_text="Settlements appear here when they are reserved.",
    )
    waiting = [each for each in services().bank_accounts.list(context) if each.bank and not each.confirmed_at]
    first_reserved = request.args.get("reserved")
    waits = any(each.status == "created" for each in table.rows)
    page = show_table(
        "console/bank/settlements.html",
        table,
        due=due,
        reserved=_waiting(context, first_reserved) if first_reserved else (),
        first_reserved=first_reserved,
        day=day,
        waiting=waiting,
        waits=waits,
        error=error,
    )
    return forms.refused(page, error) if error else page


@console.page("POST", "/operator/settlements/reserve", who="operator", form_on="list_settlements")
def reserve_settlements(context: RequestContext) -> Any:
    """Reserve what clients are due; answer with the file for the bank."""
    day = forms.date_of(request.form.get("date", ""))
    proposed = ProposeSettlements(context.caller.operator or "", day)
    due = services().bank_settlements.propose(proposed, context)
    if not due:
        return done("No client is due anything.", "list_settlements", tone="warn")
    return redirect(url_for("console.list_settlements", reserved=min(str(each.settlement_id) for each in due)), 303)


@console.page("GET", "/operator/settlements/waiting.csv", who="operator")
def download_waiting_settlements(context: RequestContext) -> Response:
    """The file for the bank: what waits for it; with `reserved`, that settlement and those reserved after it."""
    waiting = _waiting(context, request.args.get("reserved", ""))
    return send_csv(services().bank_settlements.file(waiting), "settlements-waiting")


@console.page("POST", "/operator/settlements/<client_id>/confirm", who="operator", form_on="list_settlements")
def confirm_bank_account(context: RequestContext, client_id: str) -> Any:
    confirmed = ConfirmBankAccount(client_id, context.caller.operator or "", request.form.get("digest", ""))
    services().bank_accounts.confirm(confirmed, context)
    return done("The bank account is confirmed.", "list_settlements")


@console.page(
    "POST",
    "/operator/settlements/file",
    who="operator",
    form_on="list_settlements",
    max_body_bytes=LARGEST_FILE_BYTES + 64 * 1024,
)
def propose_settlements(context: RequestContext) -> Any:
    """Propose to record each line of a file that has a bank reference: all of them or none."""
    file = request.files.get("file")
    if file is None or not file.filename:
        raise fault_of("file", "Choose a file.")
    is_paid = request.form.get("is_paid") == "yes"
    lines = services().bank_settlements.read(file.read(), context, is_paid=is_paid)
    services().proposals.propose_all(
        [
            Propose("settlement.record", line.settlement_id, f"Paid by the bank as {line.bank_reference}", asdict(line))
            for line in lines
        ],
        context,
    )
    return done(gettext("%(count)s proposed. Another operator confirms each.", count=len(lines)), "list_proposals")


def _waiting(context: RequestContext, first: str) -> list[DueSettlement]:
    waiting = services().bank_settlements.waiting(context)
    return [each for each in waiting if str(each.settlement_id) >= first]
