"""Payouts: uploaded as a file, approved by another person, followed and cancelled."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from flask import Response, flash, redirect, render_template, request, url_for

from schemas.payouts import ApprovePayoutBody, CreatePayoutQuery
from ussd_server.api.bodies import load
from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, shown_again
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, TableFilter, send_csv, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.payouts.messages import (
    LARGEST_FILE_BYTES,
    ApprovePayout,
    CreatePayout,
    ItemState,
    ListPayoutItems,
    ListPayouts,
    NameMatch,
    PayoutItemView,
    PayoutStatus,
    PayoutView,
)
from ussd_server.status import Code, ServiceError

FORM_BYTES = 64 * 1024
"""What a browser sends around a file."""

_COLUMNS = (
    Column("created_at", "Created", "moment"),
    Column(
        "reference",
        "Reference",
        "reference",
        link=lambda seen: link_to("payout", seen.payout_id),
    ),
    Column("status", "Status", "status"),
    Column("send_at", "Date", "moment"),
    Column("ready_count", "People", "number"),
    Column("total_amount", "Total", "money"),
    Column("total_fee", "Fees", "money", where="files"),
    Column("succeeded_count", "Succeeded", "number"),
    Column("failed_count", "Failed", "number"),
    Column("invalid_count", "Invalid", "number"),
    Column("description", "Description"),
    Column("payout_id", "Id", "id", where="files"),
)
_OTHERS = "an operator, or a person or key that was deleted"
_ITEM_COLUMNS = (
    Column("line", "Line", "number"),
    Column("phone_number", "Phone number", "code"),
    Column("name", "Name"),
    Column("registered_name", "Registered name"),
    Column("name_match", "Names", "status"),
    Column("amount", "Amount", "money", value=lambda item: item.amount_text or item.amount_cents),
    Column("fee", "Fee", "money", where="files"),
    Column("reference", "Reference", "reference", link=lambda item: link_to("transaction", item.transaction_id)),
    Column("state", "State", "status"),
    Column("result", "Result", "sentence", value=lambda item: _result(item), where="page"),
    Column("transaction_id", "Transaction", "id", where="files"),
    Column("problems", "Problems", value=lambda item: " ".join(item.problems), where="files"),
    Column("receipt", "Receipt", value=lambda item: item.provider_transaction_id, where="files"),
    Column("failure", "Failure", value=lambda item: item.failure and item.failure.code, where="files"),
    Column("description", "Description", where="files"),
)


@console.page("GET", "/payouts", needs="payouts:read")
def list_payouts(context: RequestContext) -> Response:
    """The client's payouts, newest first."""
    return payouts_page(context)


def payouts_page(context: RequestContext, client: ClientView | None = None) -> Response:
    """The payouts of a client, newest first. Operators name the `client`, on whose behalf they look."""
    status = TableFilter("status", "Status", {word.value: word.value.capitalize() for word in PayoutStatus})
    reference = TableFilter("reference", "Reference")
    first, last = TableFilter("from", "From", input_type="date"), TableFilter("to", "To", input_type="date")
    page = services().payouts.list(
        ListPayouts(
            cursor=request.args.get("cursor"),
            status=PayoutStatus(status.chosen) if status.chosen else None,
            reference=reference.chosen or None,
            from_at=forms.day(first.chosen),
            to_at=forms.day(last.chosen, is_last=True),
        ),
        context,
    )
    table = DataTable(
        "Payouts, newest first",
        _COLUMNS,
        page.items,
        page.next_cursor,
        (status, reference, first, last),
        empty_title="No payouts yet",
        empty_text="" if client else "Upload a file to pay many people at once.",
    )
    return show_table("console/payouts/list.html", table, client=client)


@console.page("GET", "/payouts/new", needs="payouts:write")
def new_payout(_: RequestContext) -> str:
    """The form of a new payout."""
    return render_template("console/payouts/new.html", given={}, error=None)


@console.page("POST", "/payouts/new", needs="payouts:write", max_body_bytes=LARGEST_FILE_BYTES + FORM_BYTES)
def create_payout(context: RequestContext) -> Any:
    """Judge every row of a file and show them; nothing is sent."""
    given = {name: request.form.get(name, "").strip() for name in ("reference", "description", "send_at")}
    file = request.files.get("file")
    with shown_again(
        lambda error: render_template("console/payouts/new.html", given=given, error=error), Code.IDEMPOTENCY_KEY_REUSED
    ):
        if file is None or not file.filename:
            raise ServiceError(Code.INVALID_REQUEST, "Choose a file.")
        named = {name: given[name] for name in ("reference", "description") if given[name]}
        values = load(CreatePayoutQuery(), named) | {"send_at": forms.local_moment(given["send_at"])}
        created = services().payouts.create(CreatePayout(**values, file=file.read()), context)
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


@console.page("GET", "/payouts/<payout_id>", needs="payouts:read")
def show_payout(context: RequestContext, payout_id: str) -> Response:
    """One payout: its totals, its rows and what can be done with it."""
    return payout_page(payout_id, context)


@console.page("GET", "/payouts/<payout_id>/live", needs="payouts:read")
def show_payout_live(context: RequestContext, payout_id: str) -> Response:
    """The part of a payout's page that refreshes by itself; a new status reloads the page."""
    return live_part(payout_id, context)


@console.page("GET", "/payouts/<payout_id>/results.csv", needs="payouts:read")
def download_payout(context: RequestContext, payout_id: str) -> Response:
    """Every row with its result, or those of one state, as a file."""
    return results_file(payout_id, context)


@console.page("POST", "/payouts/<payout_id>/approve", needs="payouts:approve", fresh_code=True)
def approve_payout(context: RequestContext, payout_id: str) -> Any:
    """Reserve the sum and the fees of all ready rows, and send them."""
    with _shown_again(payout_id, context, None):
        shown = load(ApprovePayoutBody(), {name: value for name, value in request.form.items() if name == "total_fee"})
        approved = services().payouts.approve(ApprovePayout(payout_id, **shown), context)
    if approved.send_at and approved.approved_at and approved.send_at > approved.approved_at:
        return done("The payout is approved. It waits for its date.", "show_payout", payout_id=payout_id)
    return done("The payout is approved. Its rows are being sent.", "show_payout", payout_id=payout_id)


@console.page("POST", "/payouts/<payout_id>/cancel", needs="payouts:write")
def cancel_payout(context: RequestContext, payout_id: str) -> Any:
    """Cancel what was not sent."""
    return cancel(payout_id, context)


def cancel(payout_id: str, context: RequestContext, client: ClientView | None = None) -> Any:
    """Cancel what was not sent, and show the page of the payout. Operators name its `client`."""
    with _shown_again(payout_id, context, client):
        services().payouts.cancel(payout_id, context)
    flash("What was not sent is cancelled, and its money is free again.", "good")
    return redirect(url_for(_views(client)["page"], payout_id=payout_id), 303)


def live_part(payout_id: str, context: RequestContext, client: ClientView | None = None) -> Response:
    """The live part of a payout's page. A new status reloads the page."""
    payout = services().payouts.get(payout_id, context)
    shown = render_template("console/payouts/live.html", **_live_parts(payout, context, client))
    response = Response(shown)
    if request.args.get("was") != _version_of(payout):
        response.headers["HX-Refresh"] = "true"
    return response


def results_file(payout_id: str, context: RequestContext) -> Response:
    """The rows of a payout with their results, of the chosen state or of all."""
    payout = services().payouts.get(payout_id, context)
    wanted = ListPayoutItems(payout_id, state=_state(), name_match=_name_match())
    parts = services().payouts.csv(wanted, context)
    return send_csv(parts, "payout", payout.reference, wanted.state, wanted.name_match)


def _shown_again(payout_id: str, context: RequestContext, client: ClientView | None) -> AbstractContextManager[None]:
    """Show the page of the payout with the reason why it stays as it is."""
    return shown_again(
        lambda error: payout_page(payout_id, context, client, error), Code.INSUFFICIENT_BALANCE, Code.INSUFFICIENT_SCOPE
    )


def payout_page(
    payout_id: str, context: RequestContext, client: ClientView | None = None, error: ServiceError | None = None
) -> Response:
    """The page of a payout. Operators name its `client`, on whose behalf they look."""
    reader = services().payouts
    payout = reader.get(payout_id, context)
    state = TableFilter("state", "State", {word.value: word.value.capitalize() for word in ItemState})
    names = TableFilter("names", "Names", {word.value: word.value.capitalize() for word in NameMatch})
    cursor = request.args.get("cursor")
    chosen = ListPayoutItems(payout_id, cursor=cursor, state=_state(), name_match=_name_match())
    page = reader.items(chosen, context)
    filters = (state, names)
    title = gettext("Rows of %(reference)s", reference=payout.reference)
    table = DataTable(title, _ITEM_COLUMNS, page.items, page.next_cursor, filters, has_filter_form=False)
    main = services().balances.get(None, context)
    return show_table(
        "console/payouts/payout.html",
        table,
        error=error,
        **_live_parts(payout, context, client),
        shortfalls=reader.shortfalls(payout_id, context),
        available_cents=main.available_cents,
    )


def _live_parts(payout: PayoutView, context: RequestContext, client: ClientView | None) -> dict[str, Any]:
    """What the live part of a payout's page shows."""
    state, name_match = _state(), _name_match()
    return {
        "payout": payout,
        "people": _people(payout, context),
        "name_matches": services().payouts.name_matches(payout.payout_id, context),
        "state": state and state.value,
        "names": name_match and name_match.value,
        "replaced_by": services().payouts.replaced_by(payout.payout_id, context),
        "version": _version_of(payout),
        "client": client,
        "views": _views(client),
    }


def _people(payout: PayoutView, context: RequestContext) -> dict[str, Any]:
    """The names of the people who made and approved a payout, and of the people who may still approve it."""
    reader = services().team
    names = reader.names((payout.created_by, payout.approved_by), context)
    counted_as_maker = services().payouts.counted_as_maker(payout.payout_id, context)
    is_open = payout.status is PayoutStatus.DRAFT and payout.ready_count > 0
    return {
        "created_by": names.get(payout.created_by, _OTHERS),
        "approved_by": payout.approved_by and names.get(payout.approved_by, _OTHERS),
        "approvers": reader.who_may("payouts:approve", context, without=counted_as_maker) if is_open else (),
        "may_correct": payout.status is PayoutStatus.DRAFT and payout.created_by == context.caller.user_id,
        "is_maker": context.caller.user_id in counted_as_maker,
    }


def _views(client: ClientView | None) -> dict[str, str]:
    """The views that a payout's page leads to: for its client's people, or for operators."""
    name = "any_payout" if client else "payout"
    return {
        "page": f"console.show_{name}",
        "live": f"console.show_{name}_live",
        "download": f"console.download_{name}",
        "cancel": f"console.cancel_{name}",
    }


def _version_of(payout: PayoutView) -> str:
    """What the page's actions depend on."""
    parts = (payout.status.value, "final" if payout.completed_at else "", "reserved" if payout.reserved_at else "")
    return "-".join(filter(None, parts))


def _state() -> ItemState | None:
    chosen = request.args.get("state", "")
    return ItemState(chosen) if chosen in set(ItemState) else None


def _name_match() -> NameMatch | None:
    chosen = request.args.get("names", "")
    return NameMatch(chosen) if chosen in set(NameMatch) else None


def _result(item: PayoutItemView) -> str | None:
    """Why a row is not sent or failed, in words."""
    return item.failure.message if item.failure else " ".join(item.problems)
