"""The first page, and what answers addresses that do not exist."""

from __future__ import annotations

from typing import Any

from flask import redirect, render_template, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import NO_PAGE, console
from ussd_server.context import CallerKind, RequestContext
from ussd_server.services.payouts.messages import ListPayouts, PayoutStatus
from ussd_server.services.transactions.messages import ListTransactions, TransactionStatus, TransactionType
from ussd_server.status import Code, ServiceError


@console.page("GET", "", who="person")
def show_overview(context: RequestContext) -> Any:
    """How the client's business goes now, and what to do next."""
    if context.caller.kind is CallerKind.OPERATOR:
        return redirect(url_for("console.show_operator_overview"))
    return render_template("console/overview.html", **_figures(context), next_steps=_next_steps(context))


@console.page("GET", "/overview/figures")
def show_overview_figures(context: RequestContext) -> str:
    """The part of the overview that refreshes by itself."""
    return render_template("console/figures.html", **_figures(context))


def _figures(context: RequestContext) -> dict[str, Any]:
    webhooks = services().webhooks.list(context).items
    unclear = ListTransactions(status=TransactionStatus.AMBIGUOUS, limit=100)
    drafts = services().payouts.list(ListPayouts(status=PayoutStatus.DRAFT, limit=100), context).items
    states = services().provider_states.list(context)
    troubled_count = sum(state.is_troubled for state in states)
    unclear_count = len(services().transactions.list(unclear, context).items)
    waiting_payouts = sum(1 for draft in drafts if draft.ready_count)
    bad_webhooks = [each for each in webhooks if each.failing_since or not each.is_active]
    return {
        "recent": services().recent_payments.get(context),
        "balance": services().balances.get(None, context),
        "open_sessions": services().api_sessions.count_open(context),
        "states": states,
        "unclear_count": unclear_count,
        "waiting_payouts": waiting_payouts,
        "expiring_keys": services().key_reader.expiring(context),
        "bad_webhooks": bad_webhooks,
        "attention_count": troubled_count + bool(unclear_count) + bool(waiting_payouts) + len(bad_webhooks),
    }


def _next_steps(context: RequestContext) -> dict[str, Any] | None:
    """What a client that is new here does next; None once it has a key, as far as one may know, and a payment."""
    has_key = bool(services().key_reader.list(context)) if context.may("api_keys:list") else None
    payments = services().transactions.list(ListTransactions(limit=2), context).items
    has_paid = any(each.type is not TransactionType.DEPOSIT for each in payments)
    if has_key is not False and has_paid:
        return None
    codes = services().menus.codes(context)
    return {"has_key": has_key, "has_paid": has_paid, "codes": codes, "is_sandbox": services().settings.is_sandbox}


@console.page("GET", "/", who="public")
def leave_out_slash(_: RequestContext) -> Any:
    """The overview under its usual address."""
    return redirect(url_for("console.show_overview"))


@console.page("GET", "/<path:anything>", who="person")
def refuse_unknown_page(_: RequestContext, anything: str) -> str:  # noqa: ARG001 - the unknown address
    """Refuse an address that does not exist."""
    raise ServiceError(Code.NOT_FOUND, NO_PAGE)


@console.page("POST", "/<path:anything>", who="person")
def refuse_unknown_form(_: RequestContext, anything: str) -> str:  # noqa: ARG001 - the unknown address
    """Refuse a form for an address that does not exist."""
    raise ServiceError(Code.NOT_FOUND, NO_PAGE)
