"""Reviews, and proposals: what one operator proposed and another confirms."""

from __future__ import annotations

from typing import Any

from flask import flash, redirect, render_template, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.context import RequestContext


@console.page("GET", "/operator/reviews", who="operator")
def list_reviews(context: RequestContext) -> str:
    """Transactions that operators must review, the one that has waited longest first."""
    proposed = {proposal.object_id: proposal for proposal in services().operators.proposals.list_open(context)}
    reviews = services().transactions.review.list(context)
    return render_template("console/operator/reviews.html", reviews=reviews, proposed=proposed)


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
