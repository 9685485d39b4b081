"""Proposals: what one operator proposed and another confirms."""

from __future__ import annotations

from typing import Any

from flask import flash, redirect, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.context import RequestContext
from ussd_server.messages.operators import Propose
from ussd_server.status import Code, ServiceError

_ACTIONS: dict[str, tuple[str, dict[str, bool]]] = {
    "succeeded": ("review.settle", {"has_succeeded": True}),
    "failed": ("review.settle", {"has_succeeded": False}),
    "close": ("review.close", {}),
}


@console.page("GET", "/operator/reviews", who="operator")
def list_reviews(context: RequestContext) -> str:
    """Transactions that operators must review, the one that has waited longest first."""
    proposed = {proposal.object_id: proposal for proposal in services().operators.proposals.list_open(context)}
    reviews = services().transactions.review.list(context)
    return render_template("console/operator/reviews.html", reviews=reviews, proposed=proposed)


@console.page("POST", "/operator/reviews/<transaction_id>/propose", who="operator")
def propose_end_of_review(context: RequestContext, transaction_id: str) -> Any:
    """Propose how a review ends."""
    services().transactions.review.show(transaction_id, context)
    outcome = request.form.get("outcome")
    if outcome not in _ACTIONS:
        raise ServiceError(Code.INVALID_REQUEST, "Choose how the review ends.")
    action, parameters = _ACTIONS[outcome]
    services().operators.proposals.propose(
        Propose(action, transaction_id, request.form.get("reason", ""), parameters), context
    )
    flash("The proposal waits for another operator.", "good")
    return redirect(url_for("console.list_proposals"), 303)


@console.page("POST", "/operator/transactions/<transaction_id>/refund", who="operator")
def propose_refund(context: RequestContext, transaction_id: str) -> Any:
    """Propose to give a payment back, in whole or in part."""
    services().transactions.review.show(transaction_id, context)
    amount = request.form.get("amount", "").strip()
    if amount and (not amount.isascii() or not amount.isdigit() or not 0 < int(amount) < 1_000_000):
        raise ServiceError(Code.INVALID_REQUEST, "Give the amount in whole shillings, or leave it empty.")
    parameters = {"amount_cents": int(amount) * 100 if amount else None}
    services().operators.proposals.propose(
        Propose("transaction.refund", transaction_id, request.form.get("reason", ""), parameters), context
    )
    flash("The proposal waits for another operator.", "good")
    return redirect(url_for("console.list_proposals"), 303)


@console.page("GET", "/operator/proposals", who="operator")
def list_proposals(context: RequestContext) -> str:
    """Open proposals, the oldest first."""
    proposals = services().operators.proposals.list_open(context)
    return render_template("console/operator/proposals.html", proposals=proposals, me=context.caller.operator)


@console.page("POST", "/operator/proposals/<proposal_id>/confirm", who="operator")
def confirm_proposal(context: RequestContext, proposal_id: str) -> Any:
    """Do what another operator proposed."""
    services().operators.proposals.confirm(proposal_id, context)
    flash("It is done.", "good")
    return redirect(url_for("console.list_proposals"), 303)


@console.page("POST", "/operator/proposals/<proposal_id>/withdraw", who="operator")
def withdraw_proposal(context: RequestContext, proposal_id: str) -> Any:
    """Take a proposal back."""
    services().operators.proposals.withdraw(proposal_id, context)
    flash("The proposal is withdrawn. Nothing was done.", "good")
    return redirect(url_for("console.list_proposals"), 303)
