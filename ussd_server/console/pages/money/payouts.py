"""Payouts: uploaded as a file, corrected, approved by another person, followed and cancelled."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request

from schemas.payouts import ApprovePayoutBody, CreatePayoutQuery
from ussd_server.api.requests import load, services
from ussd_server.console import formats, forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, fault_of
from ussd_server.console.links import link_to
from ussd_server.console.tables import (
    PERIOD,
    Column,
    DataTable,
    TableFilter,
    chosen,
    pages,
    send_csv,
    show_table,
    words_of,
)
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.payouts import messages
from ussd_server.services.transactions.messages import TransactionStatus
from ussd_server.status import Code

_FORM: Any = {
    "form_on": "show_payout",
    "refusals": (Code.INSUFFICIENT_BALANCE, Code.INSUFFICIENT_SCOPE, Code.IDEMPOTENCY_KEY_REUSED),
}
"""An approval, a cancellation and a retry are refused on the page of the payout."""
_FORM_BYTES = 64 * 1024
"""Bytes that a browser sends around a file."""

_COLUMNS = (
    Column("created_at", "Created", "moment"),
    Column("reference", "Reference", "reference", link=lambda row: link_to("payout", row.payout_id)),
    Column("shown_status", "Status", "status", value=lambda row: _shown_status(row), where="page"),
    Column("status", "Status", "status", where="files"),
    Column("send_at", "Date", "moment", is_minor=True),
    Column("ready_count", "People", "number"),
    Column("total_amount", "Total", "money"),
    Column("total_fee", "Fees", "money", where="files"),
    Column("succeeded_count", "Succeeded", "number"),
    Column("failed_count", "Failed", "number"),
    Column("invalid_count", "Invalid", "number", is_minor=True),
    Column("description", "Description", is_minor=True),
    Column("payout_id", "Id", "id", where="files"),
)
_FIELD_TITLES = {name: name.replace("_", " ").capitalize() for name in messages.FIELDS}
_OTHERS = "an operator, or a person or key that was deleted"
_ITEM_COLUMNS = (
    Column("line", "Line", "number", is_minor=True),
    Column("phone_number", "Phone number", "phone"),
    Column("name", "Name", note=lambda item: _shown_match(item)),
    Column("registered_name", "Registered name", is_minor=True),
    Column("name_match", "Names", "status", where="files"),
    Column("amount", "Amount", "money", value=lambda item: item.amount_text or item.amount_cents),
    Column("fee", "Fee", "money", where="files"),
    Column("reference", "Reference", "reference", link=lambda item: link_to("transaction", item.transaction_id)),
    Column("state", "State", "status"),
    Column("result", "Result", "sentence", value=lambda item: _result(item), where="page"),
    Column("transaction_id", "Transaction", "id", where="files"),
    Column("problems", "Problems", value=lambda item: " ".join(item.problems), where="files"),
    Column("warning", "Warning", where="files"),
    Column("receipt", "Receipt", value=lambda item: item.provider_transaction_id, where="files"),
    Column("failure", "Failure", value=lambda item: item.failure and item.failure.code, where="files"),
    Column("description", "Description", where="files"),
    Column("round", "Round", "number", where="files"),
    Column("attempts", "Attempts", "number", value=lambda item: len(item.attempts), where="files"),
)

_FILTERS = {
    "status": TableFilter("status", "Status", words_of(messages.PayoutStatus), read=messages.PayoutStatus),
    "reference": TableFilter("reference", "Reference"),
    **PERIOD,
}
_UNPAID = (messages.ItemState.FAILED, messages.ItemState.CANCELLED)
_STATE = TableFilter("state", "State", words_of(messages.ItemState), read=messages.ItemState)
_NAMES = TableFilter("names", "Names", words_of(messages.NameMatch), read=messages.NameMatch)


@console.page("GET", "/payouts", needs="payouts:read")
@console.operators_page("GET", "/operator/clients/<client_id>/payouts")
def list_payouts(context: RequestContext, client: ClientView | None = None) -> Response:
    table = DataTable(
        "Payouts, newest first",
        _COLUMNS,
        pages(services().payouts.list, messages.ListPayouts(**chosen(_FILTERS)), context),
        _FILTERS.values(),
        empty_title="No payouts yet",
        empty_text="" if client else "Upload a file to pay many people at once.",
    )
    return show_table("console/payouts/list.html", table, client=client)


@console.page("GET", "/payouts/new", needs="payouts:write")
def new_payout(_: RequestContext) -> str:
    return render_template("console/payouts/new.html", form=request.form)


@console.page(
    "POST",
    "/payouts/new",
    needs="payouts:write",
    form_on="new_payout",
    refusals=(Code.IDEMPOTENCY_KEY_REUSED,),
    max_body_bytes=messages.LARGEST_FILE_BYTES + _FORM_BYTES,
)
def create_payout(context: RequestContext) -> Any:
    """Judge every row of a file and show them; nothing is sent."""
    form = {name: request.form.get(name, "").strip() for name in ("reference", "description", "send_at")}
    file = request.files.get("file")
    if file is None or not file.filename:
        raise fault_of("file", "Choose a file.")
    named = {name: form[name] for name in ("reference", "description") if form[name]}
    values = load(CreatePayoutQuery(), named) | {"send_at": forms.local_moment(form["send_at"])}
    created = services().payouts.create(messages.CreatePayout(**values, file=file.read()), context)
    payout_id = created.payout.payout_id
    if created.replayed:
        return done(
            "This file was uploaded before under the same reference. Here is its payout.",
            "show_payout",
            tone="warn",
            payout_id=payout_id,
        )
    return done(
        "Every row is checked. Nothing is sent before another person approves it.", "show_payout", payout_id=payout_id
    )


@console.page("GET", "/payouts/<payout_id>", needs="payouts:read", shows="payout")
@console.operators_page("GET", "/operator/payouts/<payout_id>", shows="payout")
def show_payout(context: RequestContext, payout_id: str, client: ClientView | None = None) -> Response:
    reader = services().payouts
    payout = reader.get(payout_id, context)
    cursor = request.args.get("cursor")
    wanted = messages.ListPayoutItems(
        payout_id, cursor=cursor, state=_STATE.value, name_match=_NAMES.value, unpaid_first=True
    )
    table = DataTable(
        gettext("Rows of %(reference)s", reference=payout.reference),
        _ITEM_COLUMNS,
        pages(reader.items, wanted, context),
        (_STATE, _NAMES),
        select_name="rows" if client is None and context.may("payouts:write") and _has_unpaid(payout) else None,
        select_value=lambda item: item.reference if item.state in _UNPAID else None,
        has_filter_form=False,
    )
    main = services().balances.get(None, context)
    return show_table(
        "console/payouts/payout.html",
        table,
        **_live_parts(payout, context, client),
        equal_payments=reader.equal_payment_count(payout_id, context),
        available_cents=main.available_cents,
    )


@console.page("GET", "/payouts/<payout_id>/live", needs="payouts:read")
@console.operators_page("GET", "/operator/payouts/<payout_id>/live")
def show_payout_live(context: RequestContext, payout_id: str, client: ClientView | None = None) -> Response:
    """The part of a payout's page that refreshes by itself; a new status reloads the page."""
    payout = services().payouts.get(payout_id, context)
    parts = _live_parts(payout, context, client)
    response = Response(render_template("console/payouts/live.html", **parts))
    if request.args.get("was") != parts["version"]:
        response.headers["HX-Refresh"] = "true"
    return response


@console.page("GET", "/payouts/<payout_id>/results.csv", needs="payouts:read")
@console.operators_page("GET", "/operator/payouts/<payout_id>/results.csv")
def download_payout(context: RequestContext, payout_id: str, client: ClientView | None = None) -> Response:  # noqa: ARG001 - names the file of both
    """Every row with its result, or those of one state, as a file."""
    payout = services().payouts.get(payout_id, context)
    wanted = messages.ListPayoutItems(payout_id, state=_STATE.value, name_match=_NAMES.value)
    parts = services().payouts.csv(wanted, context)
    return send_csv(parts, "payout", payout.reference, wanted.state, wanted.name_match)


@console.page("GET", "/payouts/<payout_id>/correct", needs="payouts:write")
def show_payout_corrections(context: RequestContext, payout_id: str) -> str:
    """The form with the invalid rows of a draft as they are or were typed, and that of a corrected file."""
    payout = services().payouts.get(payout_id, context)
    typed = _corrections()
    invalid = messages.ListPayoutItems(payout_id, state=messages.ItemState.INVALID, limit=messages.MOST_CORRECTED)
    items = services().payouts.items(invalid, context).items
    rows = [(item, typed.get(item.line) or messages.fields_of(item)) for item in items]
    return render_template("console/payouts/correct.html", payout=payout, rows=rows, titles=_FIELD_TITLES)


@console.page(
    "POST",
    "/payouts/<payout_id>/correct",
    needs="payouts:write",
    form_on="show_payout_corrections",
    refusals=(Code.INSUFFICIENT_SCOPE,),
    max_body_bytes=messages.LARGEST_FILE_BYTES + _FORM_BYTES,
)
def correct_payout(context: RequestContext, payout_id: str) -> Any:
    file = request.files.get("file")
    if file is not None and not file.filename:
        raise fault_of("file", "Choose a file.")
    content = None if file is None else file.read()
    replaced = services().payouts.replace(messages.ReplacePayout(payout_id, content, _corrections()), context).payout
    if replaced.payout_id == payout_id:
        return done("Nothing was changed.", "show_payout", tone="warn", payout_id=payout_id)
    return done(
        "Every row is checked again. Nothing is sent before another person approves it.",
        "show_payout",
        payout_id=replaced.payout_id,
    )


@console.page("POST", "/payouts/<payout_id>/approve", needs="payouts:approve", fresh_code=True, **_FORM)
def approve_payout(context: RequestContext, payout_id: str) -> Any:
    """Reserve the sum and the fees of all ready rows, and send them."""
    fields: dict[str, Any] = {name: value for name in ("total_fee", "note") if (value := request.form.get(name))}
    named = request.form.get("round", "")
    if named.isascii() and named.isdigit():
        fields["round"] = int(named)
    wanted = messages.ApprovePayout(payout_id, **load(ApprovePayoutBody(), fields))
    approved = services().payouts.approve(wanted, context)
    if approved.status is messages.PayoutStatus.DRAFT:
        return done("Your approval is kept. The payout needs another one.", "show_payout", payout_id=payout_id)
    if approved.send_at and approved.approved_at and approved.send_at > approved.approved_at:
        return done("The payout is approved. It waits for its date.", "show_payout", payout_id=payout_id)
    if services().payouts.details(payout_id, context).awaited:
        return done(
            "The payout is approved. It waits for its provider.", "show_payout", tone="warn", payout_id=payout_id
        )
    return done("The payout is approved. Its rows are being sent.", "show_payout", payout_id=payout_id)


@console.page("POST", "/payouts/<payout_id>/retry", needs="payouts:write", **_FORM)
def retry_payout(context: RequestContext, payout_id: str) -> Any:
    """Open the next round with the chosen rows, or every row that may be paid again."""
    send_at = forms.local_moment(request.form.get("send_at", ""))
    rows = tuple(request.form.getlist("rows")[: messages.MOST_ITEMS]) or None
    services().payouts.retry(messages.RetryPayout(payout_id, rows, send_at), context)
    return done("The rows are a draft again. Another person approves it.", "show_payout", payout_id=payout_id)


@console.page("POST", "/payouts/<payout_id>/cancel", needs="payouts:write", **_FORM)
@console.operators_page("POST", "/operator/payouts/<payout_id>/cancel", **_FORM)
def cancel_payout(context: RequestContext, payout_id: str, client: ClientView | None = None) -> Any:
    """Cancel what was not sent. The client reads in its audit trail that an operator did it."""
    services().payouts.cancel(messages.CancelPayout(payout_id, request.form.get("note")), context)
    view = "show_payout_for_operators" if client else "show_payout"
    return done("What was not sent is cancelled, and its money is free again.", view, payout_id=payout_id)


def _has_unpaid(payout: messages.PayoutStates) -> bool:
    """Whether a payout is final and rows of it were not paid."""
    return payout.completed_at is not None and any(state in payout.states for state in _UNPAID)


def _live_parts(payout: messages.PayoutStates, context: RequestContext, client: ClientView | None) -> dict[str, Any]:
    """The values of the live part of a payout's page."""
    details = services().payouts.details(payout.payout_id, context)
    return {
        "payout": payout,
        "details": details,
        "people": _people(payout, details, context),
        "state": _STATE.chosen,
        "names": _NAMES.chosen,
        "status": _shown_status(payout),
        "version": _version_of(payout, details),
        "client": client,
    }


def _people(payout: messages.PayoutView, details: messages.PayoutDetails, context: RequestContext) -> dict[str, Any]:
    """The names of the people who made and approved a payout, and of the people who may still approve it."""
    reader, own_id = services().people, context.caller.user_id
    makers = (payout.created_by, payout.round.created_by)
    ids = (*makers, payout.approved_by, *(each.by for each in payout.approvals))
    names = reader.names((*ids, own_id), context)
    own_address = names.get(own_id or "")
    names = {**names, own_id or "": gettext("you")}
    is_draft = payout.status is messages.PayoutStatus.DRAFT
    is_open = is_draft and payout.round.item_count > 0
    approvers = reader.who_may("payouts:approve", context, without=details.counted_as_maker) if is_open else ()
    return {
        "created_by": names.get(payout.created_by, _OTHERS),
        "round_by": names.get(payout.round.created_by, _OTHERS),
        "approved_by": payout.approved_by and names.get(payout.approved_by, _OTHERS),
        # The reader first.
        "approvers": sorted(
            (gettext("You") if address == own_address else address for address in approvers),
            key=lambda name: "@" in name,
        ),
        "may_correct": is_draft and payout.round.number == 1 and payout.created_by == own_id,
        "is_only_maker": own_id in makers,
        "is_maker": own_id in details.counted_as_maker,
        "approvals": [(names.get(each.by, _OTHERS), each) for each in payout.approvals],
        "needed": details.approvals_needed if is_open else 0,
        "maker_left": is_open and reader.has_left(payout.round.created_by, context),
    }


def _shown_status(payout: messages.PayoutStates) -> str:
    """The status of a payout; of one that is completed, whether rows failed or were not sent."""
    return "completed with failures" if payout.status == "completed" and _has_unpaid(payout) else payout.status.value


def _shown_match(item: messages.PayoutItemView) -> str | None:
    if item.is_name_awaited:
        return "being checked"
    return item.name_match.value if item.name_match and item.state is not messages.ItemState.INVALID else None


def _version_of(payout: messages.PayoutView, details: messages.PayoutDetails) -> str:
    """The conditions of the page's actions, and what changes rows of its table that are looked at first."""
    approvals = f"{len(payout.approvals)}-approvals" if payout.status is messages.PayoutStatus.DRAFT else ""
    states = ("final" if payout.completed_at else "", "reserved" if payout.reserved_at else "")
    names = "" if None in details.name_matches else "compared"
    parts = (payout.status.value, str(payout.round.number), str(payout.failed_count), approvals, names, *states)
    return "-".join(filter(None, parts))


def _result(item: messages.PayoutItemView) -> str | None:
    """Why a row is not sent, failed or has no outcome, or what to look at before it is sent, in words."""
    if item.failure:
        message = gettext(item.failure.message)
        if item.retry_at is None:
            return message
        at = formats.local_time(item.retry_at)
        return gettext("%(message)s. Its provider may still report it as paid until %(at)s.", message=message, at=at)
    if item.state is messages.ItemState.SENT and item.attempts[-1].status is TransactionStatus.AMBIGUOUS:
        return gettext(
            "Its provider has not said whether it was paid. The operator looks into it; it is not retried before that."
        )
    return " ".join(map(formats.problem, item.problems)) or (item.warning and formats.translated(item.warning)) or None


def _corrections() -> dict[int, dict[str, str]]:
    prefix = "phone_number-"
    lines = [name.removeprefix(prefix) for name in request.form if name.startswith(prefix)]
    return {
        int(line): {name: request.form.get(f"{name}-{line}", "").strip() for name in messages.FIELDS}
        for line in lines[: messages.MOST_CORRECTED]
        if line.isascii() and line.isdigit() and len(line) < 8
    }
