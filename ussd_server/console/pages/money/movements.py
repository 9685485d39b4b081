"""Unexplained money: movements that have no use yet. Two operators end each."""

from __future__ import annotations

from dataclasses import replace

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.links import link_to
from ussd_server.console.pages.service.proposals import proposal_about, proposers
from ussd_server.console.tables import ACCOUNT, Column, DataTable, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.movements.messages import ListMovements, MovementView

_COLUMNS = (
    Column("created_at", "Told", "moment", link=lambda each: link_to("movement", each.movement_id)),
    replace(ACCOUNT, is_minor=True),
    Column("direction", "Direction", "status"),
    Column("receipts", "Receipt", "reference", value=lambda each: ", ".join(each.receipts)),
    Column("amount", "Amount", "money"),
    Column("phone_number", "Number", "phone", missing="unknown"),
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
    told = services().movements.show(movement_id, context)
    is_proposed = proposal_about(movement_id, context) is not None
    return render_template(
        "console/movements/movement.html",
        movement=told,
        history=told.history,
        may_give_back=told.may_give_back,
        is_proposed=is_proposed,
    )


def _typed(each: MovementView) -> str | None:
    """What a payer typed, and the code that was meant perhaps."""
    suggested = each.suggestions[0] if each.suggestions else None
    return each.code if suggested in (None, each.code) else f"{each.code or ''} ({suggested}?)".strip()


def _why(each: MovementView) -> str | None:
    """Why a movement is listed: no use, or one that waits for what gives it back."""
    return each.held_because if each.use is None else f"{gettext('to be given back')}: {each.use.reason}"
