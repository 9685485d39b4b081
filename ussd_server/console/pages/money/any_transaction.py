"""One transaction of any client, and what operators propose about it."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.links import acting_for
from ussd_server.console.pages.money.transactions import about_transaction, show_live, transactions_page
from ussd_server.context import RequestContext
from ussd_server.services.operators.messages import Propose
from ussd_server.status import Code, ServiceError

_ACTIONS: dict[str, tuple[str, dict[str, bool]]] = {
    "succeeded": ("review.settle", {"has_succeeded": True}),
    "failed": ("review.settle", {"has_succeeded": False}),
    "close": ("review.close", {}),
}


@console.page("GET", "/operator/clients/<client_id>/transactions", who="operator")
def list_any_transactions(context: RequestContext, client_id: str) -> Response:
    """The transactions of one client, newest first."""
    client = services().clients.find(client_id, context)
    return transactions_page(acting_for(client, context), client)


@console.page("GET", "/operator/transactions/<transaction_id>", who="operator")
def show_any_transaction(context: RequestContext, transaction_id: str) -> str:
    """One transaction of any client: where its money is, and everything that happened to it."""
    shown = _about(transaction_id, context)
    open_proposals = services().proposals.list_open(context)
    proposal = next((each for each in open_proposals if each.object_id == shown["view"].transaction_id), None)
    return render_template("console/operator/transaction.html", **shown, proposal=proposal)


@console.page("GET", "/operator/transactions/<transaction_id>/live", who="operator")
def show_any_transaction_live(context: RequestContext, transaction_id: str) -> Response:
    """The part of the page that refreshes by itself."""
    return show_live(_about(transaction_id, context))


@console.page("POST", "/operator/reviews/<transaction_id>/propose", who="operator")
def propose_end_of_review(context: RequestContext, transaction_id: str) -> Any:
    """Propose how a review ends."""
    services().reviews.show(transaction_id, context)
    outcome = request.form.get("outcome")
    if outcome not in _ACTIONS:
        raise ServiceError(Code.INVALID_REQUEST, "Choose how the review ends.")
    action, parameters = _ACTIONS[outcome]
    return _propose(Propose(action, transaction_id, request.form.get("reason", ""), parameters), context)


@console.page("POST", "/operator/transactions/<transaction_id>/refund", who="operator")
def propose_refund(context: RequestContext, transaction_id: str) -> Any:
    """Propose to give a payment back, in whole or in part."""
    services().reviews.show(transaction_id, context)
    parameters = {"amount_cents": forms.cents(request.form.get("amount", ""))}
    return _propose(Propose("transaction.refund", transaction_id, request.form.get("reason", ""), parameters), context)


def _propose(proposal: Propose, context: RequestContext) -> Any:
    services().proposals.propose(proposal, context)
    return done("The proposal waits for another operator.", "list_proposals")


def _about(transaction_id: str, context: RequestContext) -> dict[str, Any]:
    item = services().reviews.show(transaction_id, context)
    client = services().clients.find(item.client_id, context)
    shown = about_transaction(
        item.transaction, acting_for(client, context), live_view="console.show_any_transaction_live"
    )
    return shown | {"item": item, "client": client}
