"""Unexplained money: movements that have no use yet. Two operators end each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import shown_again
from ussd_server.console.links import link_to
from ussd_server.console.pages.service.proposals import proposal_about, propose, proposers
from ussd_server.console.tables import PROVIDER, Column, DataTable, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.movements.messages import ListMovements, MovementView
from ussd_server.status import Code, ServiceError

_COLUMNS = (
    Column("created_at", "Told", "moment", link=lambda each: link_to("movement", each.movement_id)),
    replace(PROVIDER, is_minor=True),
    Column("direction", "Direction", "status"),
    Column("receipts", "Receipt", "reference", value=lambda each: ", ".join(each.receipts)),
    Column("amount", "Amount", "money"),
    Column("phone_number", "Number", "code", missing="unknown"),
    Column("name", "Name", where="files"),
    Column("code", "Typed", value=lambda each: _typed(each), missing="nothing", is_minor=True),
    Column("held_because", "Why", "sentence", value=lambda each: _why(each)),
    Column("suggestions", "Perhaps", value=lambda each: ", ".join(each.suggestions), where="files"),
    Column("movement_id", "Id", "id", where="files"),
)


@console.page("GET", "/operator/movements", who="operator")
def list_movements(context: RequestContext) -> Response:
    wanted = ListMovements(cursor=request.args.get("cursor"), is_held=True)
    page, proposed = pages(services().movements.list, wanted, context), proposers(context)

    def note(each: MovementView) -> str | None:
        return "proposed" if each.movement_id in proposed else None

    table = DataTable(
        "Money without a use or to be given back, newest first",
        tuple(replace(each, note=note) if each.name == "held_because" else each for each in _COLUMNS),
        page,
        empty_title="All money is explained",
        empty_text="Money that moved and that no payment, code or operator explains appears here.",
    )
    return show_table("console/movements/list.html", table, attention_count=len(page.items))


@console.page("GET", "/operator/movements/<movement_id>", who="operator", shows="movement")
def show_movement(context: RequestContext, movement_id: str) -> str:
    return _page(movement_id, context)


@console.page("POST", "/operator/movements/<movement_id>/assign", who="operator")
def propose_assignment(context: RequestContext, movement_id: str) -> Any:
    code = request.form.get("code", "").strip()
    with _shown_again(movement_id, context):
        return propose("movement.assign", movement_id, context, f"The payer meant {code}"[:200], code=code)


@console.page("POST", "/operator/movements/<movement_id>/correct", who="operator")
def propose_correction(context: RequestContext, movement_id: str) -> Any:
    typed = {name: request.form.get(name, "").strip() for name in ("client", "payment", "account")}
    with _shown_again(movement_id, context):
        client_id = services().clients.find(typed["client"], context).client_id
        parameters = {"client_id": client_id, "payment": typed["payment"] or None, "account": typed["account"] or None}
        return propose("movement.correct", movement_id, context, **parameters)


@console.page("POST", "/operator/movements/<movement_id>/release", who="operator")
def propose_release(context: RequestContext, movement_id: str) -> Any:
    with _shown_again(movement_id, context):
        return propose("movement.release", movement_id, context)


@console.page("POST", "/operator/movements/<movement_id>/return", who="operator")
def propose_return(context: RequestContext, movement_id: str) -> Any:
    other_id = request.form.get("other", "").strip() or None
    with _shown_again(movement_id, context):
        return propose("movement.return", movement_id, context, other_id=other_id)


@console.page("POST", "/operator/movements/<movement_id>/own", who="operator")
def propose_own(context: RequestContext, movement_id: str) -> Any:
    with _shown_again(movement_id, context):
        return propose("movement.own", movement_id, context)


def _typed(each: MovementView) -> str | None:
    """What a payer typed, and the code that was meant perhaps."""
    suggested = each.suggestions[0] if each.suggestions else None
    return each.code if suggested in (None, each.code) else f"{each.code or ''} ({suggested}?)".strip()


def _why(each: MovementView) -> str | None:
    """Why a movement is listed: no use, or one that waits for what gives it back."""
    return each.held_because if each.use is None else f"{gettext('to be given back')}: {each.use.reason}"


def _shown_again(movement_id: str, context: RequestContext) -> AbstractContextManager[None]:
    return shown_again(lambda error: _page(movement_id, context, error), Code.NOT_FOUND)


def _page(movement_id: str, context: RequestContext, error: ServiceError | None = None) -> str:
    told = services().movements.show(movement_id, context)
    is_proposed = proposal_about(movement_id, context) is not None
    return render_template(
        "console/movements/movement.html",
        movement=told,
        history=told.history,
        may_give_back=told.may_give_back,
        error=error,
        is_proposed=is_proposed,
    )
