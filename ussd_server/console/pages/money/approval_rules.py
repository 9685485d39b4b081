"""Approval rules: how many people approve a payout, by its sum."""

from __future__ import annotations

from typing import Any

from flask import render_template, request

from schemas.messages import UpdateClientSettingsBody
from ussd_server.api.requests import load, services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.context import RequestContext
from ussd_server.services.clients.messages import UpdateClientSettings
from ussd_server.services.payouts import messages
from ussd_server.status import Code

_FORM: Any = {"form_on": "show_approval_rules", "refusals": (Code.INSUFFICIENT_SCOPE,)}


@console.page("GET", "/payouts/approval-rules", needs="settings:read")
def show_approval_rules(context: RequestContext) -> str:
    """How many people approve a payout, by its sum."""
    settings = services().client_settings.get(context)
    proposed = settings.proposed_approval_rules
    return render_template(
        "console/payouts/rules.html",
        rules=settings.approval_rules,
        proposed=proposed,
        proposed_text=messages.in_words(proposed or ()),
        most=messages.MOST_RULES,
    )


@console.page("POST", "/payouts/approval-rules", needs="settings:write", fresh_code=True, **_FORM)
def set_approval_rules(context: RequestContext) -> Any:
    """Set the rules of the form; those that ask for less wait for another person."""
    rules = load(UpdateClientSettingsBody(), {"approval_rules": _typed_rules()})
    settings = services().client_settings.update(UpdateClientSettings(**rules), context)
    if settings.proposed_approval_rules is None:
        return done("The rules hold from now on.", "show_approval_rules")
    return done(
        "The rules ask for less. They hold once another owner or admin has confirmed them.", "show_approval_rules"
    )


@console.page("POST", "/payouts/approval-rules/confirm", needs="payouts:approve", fresh_code=True, **_FORM)
def confirm_approval_rules(context: RequestContext) -> Any:
    services().approval_rules.confirm(request.form.get("shown", ""), context)
    return done("The rules hold from now on.", "show_approval_rules")


def _typed_rules() -> list[dict[str, Any]]:
    """The rules of the form: its lines with a sum."""
    lines = zip(request.form.getlist("above"), request.form.getlist("approvals"), strict=False)
    return [
        {"above": above.replace(",", "").strip(), "approvals": int(number) if number in "12345" else 0}
        for above, number in list(lines)[: messages.MOST_RULES]
        if above.strip() and number
    ]
