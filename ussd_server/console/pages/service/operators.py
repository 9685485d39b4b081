"""Operators: their first page, who they are, and the API keys of any client."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.tables import Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.status import Code, ServiceError

_COLUMNS = (
    Column("email", "E-mail"),
    Column("state", "State", "status", value=lambda operator: "active" if operator.is_active else "disabled"),
    Column("recovery_codes_left", "Recovery codes left", "number"),
    Column("created_at", "Created", "moment"),
    Column("operator_id", "Id", "id"),
)
QUEUES = {
    "ussd_transactions_overdue_seconds": ("The worker is behind with payments by", "s"),
    "ussd_transactions_oldest_unfinished_seconds": ("Oldest payment without an outcome", "s"),
    "ussd_incoming_held": ("Held payments", ""),
    "ussd_events_pending": ("Events that are not relayed yet", ""),
    "ussd_deliveries_queued": ("Queues of webhooks with deliveries", ""),
    "ussd_deliveries_overdue_seconds": ("The worker is behind with webhooks by", "s"),
    "ussd_mails_waiting": ("Mails that are not sent yet", ""),
    "ussd_mails_overdue_seconds": ("The worker is behind with mails by", "s"),
    "ussd_sessions_active": ("Open USSD sessions", ""),
}
"""What waits: the gauge, what people call it, and its unit."""


@console.page("GET", "/operator", who="operator")
def show_operator_overview(context: RequestContext) -> str:
    """How the service does, and what waits for an operator."""
    gauges = {gauge.name: gauge.value for gauge in services().gauges.read() if gauge.name in QUEUES}
    return render_template(
        "console/operator/overview.html",
        **_waiting(context),
        queues=QUEUES,
        gauges=gauges,
    )


@console.page("GET", "/operator/figures", who="operator")
def show_operator_figures(context: RequestContext) -> str:
    """The part of the overview that refreshes by itself."""
    return render_template("console/operator/figures.html", **_waiting(context))


def _waiting(context: RequestContext) -> dict[str, Any]:
    proposals = services().proposals.list_open(context)
    has_worker = services().system.has_worker(context)
    states = services().provider_states.list(context)
    counts = {
        "review_count": services().reviews.count(context),
        "held_count": services().held_payments.count(context),
        "account_count": services().bank_accounts.count_waiting(context),
        "difference_count": services().differences.count(context),
    }
    troubles = sum(state.is_troubled + bool(state.float_low_since) for state in states)
    return {
        "has_worker": has_worker,
        "proposals": proposals,
        **counts,
        "recent": services().recent_payments.get(context),
        "states": states,
        "attention_count": troubles + (not has_worker) + bool(proposals) + sum(map(bool, counts.values())),
    }


@console.page("GET", "/operator/operators", who="operator")
def list_operators(context: RequestContext) -> Response:
    """Who signs in as an operator."""
    table = DataTable("Operators, oldest first", _COLUMNS, services().operators.list(context))
    return show_table("console/operator/operators.html", table)


@console.page("GET", "/operator/api-keys/<api_key_id>", who="operator")
def explain_api_key(context: RequestContext, api_key_id: str) -> str:
    """What would happen to a call with a key of any client now, and why."""
    explained = services().key_explanations.explain(api_key_id, context)
    if explained.client is None:
        raise ServiceError(Code.NOT_FOUND, "API Key not found")
    return render_template("console/operator/api_key.html", explained=explained, api_key_id=api_key_id)


@console.page("GET", "/operator/api-keys", who="operator")
def find_any_api_key(context: RequestContext) -> str:
    """What would happen to a call with any client's key, named by itself or its id."""
    wanted = request.args.get("q", "").strip()
    explained = services().key_explanations.explain(wanted, context) if wanted else None
    return render_template("console/operator/api_keys.html", api_key_id=wanted, explained=explained)


@console.page("POST", "/operator/api-keys/set", who="operator")
def set_any_api_key(context: RequestContext) -> Any:
    """Disable any client's key or enable it."""
    key, action = request.form.get("key", ""), request.form.get("action")
    if action not in ("disable", "enable"):
        raise ServiceError(Code.INVALID_REQUEST, "Choose whether to disable or enable the key.")
    services().api_keys.set_active(key, action == "enable", context)
    if action == "enable":
        return done("The key is enabled. This holds for calls from now on.", "find_any_api_key", q=key)
    return done("The key is disabled. This holds for calls from now on.", "find_any_api_key", q=key)
