"""Reviews, and proposals: what one operator proposed and another confirms."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.formats import provider_name
from ussd_server.console.forms import done
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.services.operators.messages import ConfirmProposal, ProposalView, Propose
from ussd_server.services.processing.messages import ReviewItem
from ussd_server.wire import ListPage


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


def propose(action: str, object_id: str, context: RequestContext, reason: str | None = None, **parameters: Any) -> Any:
    """Propose what a form says, and lead to the list of proposals. Without `reason`, the form has it."""
    reason = request.form.get("reason", "") if reason is None else reason
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
