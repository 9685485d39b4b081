"""The first pages of clients and of operators, and what answers addresses that do not exist."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Response, redirect, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import NO_PAGE, console
from ussd_server.console.live import show_live
from ussd_server.context import CallerKind, RequestContext
from ussd_server.services.payouts.messages import ListPayouts, PayoutStatus
from ussd_server.services.transactions.messages import ListTransactions, TransactionStatus, TransactionType
from ussd_server.status import Code, ServiceError

QUEUES = {
    "ussd_transactions_overdue_seconds": ("The worker is behind with payments by", "s"),
    "ussd_transactions_oldest_unfinished_seconds": ("Oldest payment without an outcome", "s"),
    "ussd_movements_held": ("Unexplained money", ""),
    "ussd_events_pending": ("Events that are not relayed yet", ""),
    "ussd_deliveries_queued": ("Queues of webhooks with deliveries", ""),
    "ussd_deliveries_overdue_seconds": ("The worker is behind with webhooks by", "s"),
    "ussd_mails_waiting": ("Mails that are not sent yet", ""),
    "ussd_mails_overdue_seconds": ("The worker is behind with mails by", "s"),
    "ussd_sessions_active": ("Open USSD sessions", ""),
}
"""Waiting work: the gauge, its displayed name, and its unit."""


@console.page("GET", "", who="person")
def show_overview(context: RequestContext) -> Any:
    """How the client's business goes now, and what to do next."""
    if context.caller.kind is CallerKind.OPERATOR:
        return redirect(url_for("console.show_operator_overview"))
    steps = partial(_next_steps, context)
    return show_live("console/overview.html", "console/figures.html", **_figures(context), next_steps=steps)


@console.page("GET", "/operator", who="operator")
def show_operator_overview(context: RequestContext) -> Response:
    return show_live(
        "console/operator/overview.html",
        "console/operator/figures.html",
        **_waiting(context),
        queues=QUEUES,
        gauges=services().gauges.read,
    )


@console.page("GET", "/", who="public")
def leave_out_slash(_: RequestContext) -> Any:
    return redirect(url_for("console.show_overview"))


@console.page("GET", "/<path:anything>", who="person")
@console.page("POST", "/<path:anything>", who="person", name="refuse_unknown_form")
def refuse_unknown_page(_: RequestContext, anything: str) -> str:  # noqa: ARG001 - the unknown address
    raise ServiceError(Code.NOT_FOUND, NO_PAGE)


def _days() -> int:
    """Of how many days the sums are: as the address says, else of today."""
    return {"7": 7, "30": 30}.get(request.args.get("days", ""), 1)


def _figures(context: RequestContext) -> dict[str, Any]:
    webhooks = services().webhooks.list(context).items
    unclear = ListTransactions(status=TransactionStatus.AMBIGUOUS, limit=100)
    drafts = services().payouts.list(ListPayouts(status=PayoutStatus.DRAFT, limit=100), context).items
    states = services().provider_states.list(context)
    troubled_count = sum(state.is_troubled for state in states)
    unclear_count = len(services().transactions.list(unclear, context).items)
    waiting_payouts = sum(1 for draft in drafts if draft.ready_count)
    unconfirmed_count = services().people.count_unconfirmed(context)
    bad_webhooks = [each for each in webhooks if each.failing_since or not each.is_active]
    return {
        "recent": services().recent_payments.get(context),
        "sums": services().recent_payments.sums(_days(), context),
        "balance": services().balances.get(None, context),
        "open_sessions": services().api_sessions.count_open(context),
        "states": states,
        "unclear_count": unclear_count,
        "waiting_payouts": waiting_payouts,
        "unconfirmed_count": unconfirmed_count,
        "expiring_keys": services().key_reader.expiring(context),
        "bad_webhooks": bad_webhooks,
        "attention_count": sum(
            (
                troubled_count,
                bool(unclear_count),
                bool(waiting_payouts),
                bool(unconfirmed_count),
                len(bad_webhooks),
            )
        ),
    }


def _next_steps(context: RequestContext) -> dict[str, Any] | None:
    """What a client that is new here does next; None once it has a key, as far as one may know, and a payment."""
    has_key = bool(services().key_reader.list(context)) if context.may("api_keys:list") else None
    payments = services().transactions.list(ListTransactions(limit=2), context).items
    has_paid = any(each.type is not TransactionType.DEPOSIT for each in payments)
    if has_key is not False and has_paid:
        return None
    codes = services().menus.codes(context)
    return {"has_key": has_key, "has_paid": has_paid, "codes": codes}


def _waiting(context: RequestContext) -> dict[str, Any]:
    proposals = services().proposals.list_open(context)
    has_worker = services().system.has_worker(context)
    states = services().provider_states.list(context)
    counts = {
        "review_count": services().reviews.count(context),
        "held_count": services().movements.count_held(context),
        "account_count": services().bank_accounts.count_waiting(context),
        "late_settlement_count": services().bank_settlements.count_late(context),
        "difference_count": services().differences.count(context),
    }
    troubles = sum(state.is_troubled + bool(state.float_low_since) for state in states)
    return {
        "has_worker": has_worker,
        "proposals": proposals,
        **counts,
        "recent": services().recent_payments.get(context),
        "sums": services().recent_payments.sums(_days(), context),
        "states": states,
        "attention_count": troubles + (not has_worker) + bool(proposals) + sum(map(bool, counts.values())),
    }
