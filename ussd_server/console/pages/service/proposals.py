"""Reviews, and proposals: what one operator proposed and another confirms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.formats import provider_name
from ussd_server.console.forms import done
from ussd_server.console.links import link_to, operators_view
from ussd_server.console.tables import Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.services.operators.messages import ConfirmProposal, ProposalView, Propose
from ussd_server.services.processing.messages import ReviewItem
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage

_PROPOSE = (
    "/operator/propose/<any(difference.conclude,movement.assign,movement.correct,movement.own,movement.release,"
    "movement.return,review.settle,statement.cover,statement.undo,transaction.refund,transaction.unmoved):action>"
    "/<object_id>"
)
_PAGES = {"difference": "show_difference", "movement": "show_movement", "statement": "show_reconciliation"}
"""The page of an object by the first word of its actions; else that of a transaction."""


@console.page("GET", "/operator/reviews", who="operator")
def list_reviews(context: RequestContext) -> Response:
    proposed = proposers(context)
    page = services().reviews.page(ListPage(cursor=request.args.get("cursor")), context)
    clients = services().clients.names({item.client_id for item in page.items}, context)
    columns = (
        Column("opened_at", "On the list since", "moment", link=lambda item: link_to("transaction", _id(item))),
        Column("client", "Client", value=lambda item: clients.get(item.client_id, item.client_id)),
        Column("amount", "Amount", "money", value=lambda item: item.transaction.amount_cents),
        Column("status", "Status", "status", value=lambda item: item.transaction.status.value),
        Column("type", "Type", "word", value=lambda item: item.transaction.type.value, is_minor=True),
        Column("provider", "Provider", "word", value=lambda item: provider_name(item.transaction.provider)),
        Column("reference", "Reference", value=lambda item: item.transaction.reference, where="files"),
        Column("reason", "Why", "sentence"),
        Column("proposed", "Proposed by", "person", value=lambda item: proposed.get(_id(item))),
        Column("transaction_id", "Id", "id", value=_id, where="files"),
    )
    table = DataTable(
        "Reviews, the longest waiting first",
        columns,
        page,
        empty_title="No review is open",
        empty_text="Payments that no provider confirmed appear here.",
    )
    return show_table("console/operator/reviews.html", table, attention_count=len(page.items))


@console.page("GET", "/operator/proposals", who="operator")
def list_proposals(context: RequestContext) -> str:
    proposals = services().proposals.show_open(context)
    me = context.caller.operator
    count = sum(each.proposal.proposed_by != me for each in proposals)
    return render_template("console/operator/proposals.html", proposals=proposals, me=me, attention_count=count)


@console.page("POST", "/operator/proposals/<proposal_id>/confirm", who="operator", form_on="list_proposals")
def confirm_proposal(context: RequestContext, proposal_id: str) -> Any:
    """Do what another operator proposed, if it still does what was shown."""
    services().proposals.confirm(ConfirmProposal(proposal_id, request.form.get("digest", "")), context)
    return done("It is done.", "list_proposals")


@console.page("POST", "/operator/proposals/<proposal_id>/withdraw", who="operator")
def withdraw_proposal(context: RequestContext, proposal_id: str) -> Any:
    services().proposals.withdraw(proposal_id, context)
    return done("The proposal is withdrawn. Nothing was done.", "list_proposals")


@console.page("GET", _PROPOSE, who="operator")
def show_proposed_object(context: RequestContext, action: str, object_id: str) -> Any:
    """The page of an object, with the form of the action."""
    kind = action.partition(".")[0]
    view, (variable,) = console.views[_PAGES.get(kind, operators_view("show_transaction"))]
    return view(context, **{variable: object_id})


@console.page("POST", _PROPOSE, who="operator", form_on="show_proposed_object", refusals=(Code.NOT_FOUND,))
def propose_action(context: RequestContext, action: str, object_id: str) -> Any:
    """Propose what the form of an object's page says."""
    if request.form.get("outcome") == "close":
        action = "review.close"
    return propose(action, object_id, context, **_parameters(action, context))


def propose(action: str, object_id: str, context: RequestContext, reason: str = "", **parameters: Any) -> Any:
    """Propose what a form says, and lead to the list of proposals. `reason` is that of a form without one."""
    reason = request.form.get("reason") or reason
    services().proposals.propose(Propose(action, object_id, reason, parameters), context)
    return done("The proposal waits for another operator.", "list_proposals")


def proposal_about(object_id: str, context: RequestContext) -> ProposalView | None:
    """The oldest open proposal about an object; None without one."""
    return next((each for each in services().proposals.list_open(context) if each.object_id == object_id), None)


def _id(item: ReviewItem) -> str:
    return item.transaction.transaction_id


def proposers(context: RequestContext) -> dict[str, str]:
    """Who proposed what becomes of an object, by the ids of objects with an open proposal."""
    return {each.object_id: each.proposed_by for each in services().proposals.list_open(context)}


def covered_days(*, may_lack: bool = False) -> dict[str, str]:
    """The days that a form says a statement covers, as `first` and `last`; with `may_lack` empty for neither."""
    days = [forms.date_of(request.form.get(name, "")) for name in ("covers_from", "covers_to")]
    if None in days and (any(days) or not may_lack):
        raise ServiceError(Code.INVALID_REQUEST, "Choose the first and the last day.")
    return {name: str(day) for name, day in zip(("first", "last"), days, strict=True) if day}


def _parameters(action: str, context: RequestContext) -> dict[str, Any]:
    """What the form of an action says, beside the reason of a person."""
    typed = {name: text.strip() for name, text in request.form.items()}
    match action:
        case "movement.assign":
            code = typed.get("code", "")
            return {"code": code, "reason": f"The payer meant {code}"[:200]}
        case "movement.correct":
            client_id = forms.client_id(typed.get("client", ""), context)
            return {"client_id": client_id} | {name: typed.get(name) or None for name in ("payment", "account")}
        case "movement.return":
            return {"other_id": typed.get("other") or None}
        case "review.settle":
            return _outcome(typed)
        case "statement.cover":
            return covered_days()
        case "transaction.refund":
            return {"amount_cents": forms.cents(typed.get("amount", ""))}
    return {}


def _outcome(typed: Mapping[str, str]) -> dict[str, Any]:
    """How the form says that a payment under review ended, with the receipt of a success."""
    if (outcome := typed.get("outcome")) not in ("succeeded", "failed"):
        raise ServiceError(Code.INVALID_REQUEST, "Choose how the review ends.")
    if outcome == "failed":
        return {"has_succeeded": False}
    receipt = typed.get("receipt") or None
    if (receipt is None) != ("no_receipt" in typed):
        raise ServiceError(Code.INVALID_REQUEST, "Give the provider's receipt, or say that it has none.")
    return {"has_succeeded": True, "receipt": receipt}
